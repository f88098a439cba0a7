// Package selection owns how a request says what it means: the parameters that
// filter events, dead letters and messages, how their values are written, counts,
// orders, date ranges, and the cursors by which a reader goes on.
//
// Each function translates parameters into a query of package store. A bad value
// is an Error with CodeInvalid that names the parameter, the value and what is
// accepted.
//
// A parameter that is not known is an error everywhere (contract, decision 16): a misspelt
// filter would let everything pass. Who reads may give one without a value, which counts as
// not given. Who changes things in bulk may not, because an empty variable must not widen
// what is changed.
package selection

import (
	"errors"
	"net/url"
	"strconv"
)

// Count says how many things a page may have.
type Count struct {
	Default int // when the request names no count; 0: no bound
	Most    int // a larger count is lowered to this one; 0: no bound
}

// Read returns the count that parameters ask for. One above the most is lowered
// to it: SDKs ask for more than some lists give (contract, decision 4).
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

// The values of the parameter order.
const (
	latestFirst   = "latestFirst"
	earliestFirst = "earliestFirst"
)

// order reports whether the oldest come first; otherwise is the answer for a
// request that does not say.
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
