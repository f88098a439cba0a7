// Package wire reads what a request says, and makes typed values of it: parameters such as filters,
// counts, orders, dates and cursors; control headers; JSON. Nothing behind the API knows them.
//
// A bad value is an Error with CodeInvalid that has the parameter, its value and what is
// accepted. An unknown parameter is always an error (contract, decision 16), because ignoring a
// misspelt filter would select everything. When reading, a parameter without value counts as
// missing. In a bulk change it is an error: an empty shell variable must not widen the change.
package wire

import (
	"errors"
	"math"
	"net/url"
	"strconv"
)

// Count is the limit of a page.
type Count struct {
	Default int // without a count; 0: unlimited
	Most    int // larger counts are lowered to it; 0: unlimited
}

// Read returns the requested count, lowered to Most because SDKs ask for more (contract, decision
// 4).
func (c Count) Read(params url.Values) (int, error) {
	text, err := parameters(params).one("count")
	if text == "" || err != nil {
		return c.Default, err
	}
	const noBound = 1<<31 - 1
	count, err := strconv.ParseUint(text, 10, 31)
	if errors.Is(err, strconv.ErrRange) {
		count, err = noBound, nil
	}
	if err != nil || count == 0 {
		return 0, invalid("count", text, "a whole number of at least 1")
	}
	if c.Most > 0 {
		count = min(count, uint64(c.Most))
	}
	return int(count), nil
}

// Values of the parameter order.
const (
	latestFirst   = "latestFirst"
	earliestFirst = "earliestFirst"
)

// order reports whether the oldest come first; otherwise is the default.
func (p parameters) order(otherwise bool) (oldestFirst bool, err error) {
	text, err := p.one("order")
	if err != nil {
		return false, err
	}
	switch text {
	case "":
		return otherwise, nil
	case latestFirst:
		return false, nil
	case earliestFirst:
		return true, nil
	default:
		return false, invalid("order", text, earliestFirst+" or "+latestFirst)
	}
}

// BodyLimit returns from trimBody how many bytes of a body to show: all if it is missing, none
// for -1 (contract, workflows D 51).
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
