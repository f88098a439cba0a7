package selection

import (
	"math"
	"net/url"
	"strconv"
)

// BodyLimit reads from trimBody how many bytes of a body to show: math.MaxInt if it is
// not given, none for -1 (contract, workflows D 51).
func BodyLimit(params url.Values) (int, error) {
	text, err := parameters(params).one("trimBody")
	switch {
	case text == "" || err != nil:
		return math.MaxInt, err
	case text == "-1":
		return 0, nil
	}
	limit, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return 0, invalid("trimBody", text, "a number of bytes, or -1 for no bodies")
	}
	return int(limit), nil
}
