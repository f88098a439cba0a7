package selection

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"posthaste"
	"posthaste/internal/weburl"
)

// maxValues bounds the values of one filter: each costs a search of its own.
const maxValues = 1000

// parameters are the parameters of a query by name. An empty value counts as
// one that was not given.
type parameters url.Values

// tolerated are parameters that some clients add to every request that selects,
// whatever it can do with them (contract, U-27).
var tolerated = []string{"api", "count", "cursor", "order"}

// RefuseAll returns an error that names a parameter, for calls that have none.
func RefuseAll(params url.Values) error { return CheckNames(params) }

// CheckNames returns an error that names a parameter that is none of those that are
// known (contract, decision 16).
func CheckNames(params url.Values, known ...string) error {
	for _, name := range slices.Sorted(maps.Keys(params)) {
		if !slices.Contains(known, name) {
			return posthaste.Invalidf("parameter %.100q is unknown: %s", name, accepted(known))
		}
	}
	return nil
}

// accepted ends the sentence about a name that is not known.
func accepted(names []string) string {
	switch len(names) {
	case 0:
		return "none is accepted here"
	case 1:
		return names[0] + " is accepted"
	default:
		return strings.Join(names, ", ") + " are accepted"
	}
}

// checkNames returns an error that names a parameter that is neither a filter nor
// one of the others. Of a filter, the form for exact values is known too.
func (p parameters) checkNames(filters []string, others ...string) error {
	for _, name := range slices.Sorted(maps.Keys(p)) {
		known := slices.Contains(filters, strings.TrimSuffix(name, exact)) || slices.Contains(others, name)
		if known || slices.Contains(tolerated, name) {
			continue
		}
		return posthaste.Invalidf("parameter %.100q is unknown: %s", name, accepted(slices.Concat(filters, others)))
	}
	return nil
}

// checkValues returns an error that names a filter, or the count, that is given without
// a value: its values were lost on the way, and without them it would let everything
// pass.
func (p parameters) checkValues(filters []string) error {
	for _, name := range filters {
		if p.lost(name) {
			return posthaste.Invalidf("%s has no value: give one, or leave it out to select by other filters or everything", name)
		}
	}
	if p.lost("count") {
		return posthaste.Invalidf("count has no value: give one, or leave it out to change as many as one call may")
	}
	return nil
}

// lost reports whether a parameter is given without a value.
func (p parameters) lost(name string) bool {
	return p.given(name) && len(p.distinct(parts, name)) == 0
}

// given reports whether a parameter is given, in either form.
func (p parameters) given(name string) bool {
	_, asList := p[name]
	_, exactly := p[name+exact]
	return asList || exactly
}

// checkUnpaged returns an error for a cursor given to a call that has no pages: it would
// be done to everything from the beginning.
func (p parameters) checkUnpaged() error {
	if p.lost("cursor") || p["cursor"] == nil {
		return nil
	}
	return posthaste.Invalidf("cursor %.100q cannot be given here: a cancellation has no pages, repeat it until it cancels nothing more", p["cursor"][0])
}

// One returns the value of a parameter that can have only one, "" if it is not given.
func One(params url.Values, name string) (string, error) { return parameters(params).one(name) }

// one returns the value of a parameter that can have only one.
func (p parameters) one(name string) (string, error) {
	values := p[name]
	switch len(values) {
	case 0:
		return "", nil
	case 1:
		return values[0], nil
	default:
		return "", posthaste.Invalidf("%s is given %d times, it can have one value", name, len(values))
	}
}

// date returns the value of a parameter that is a time.
func (p parameters) date(name string) (at time.Time, given bool, err error) {
	text, err := p.one(name)
	if text == "" || err != nil {
		return time.Time{}, false, err
	}
	at, ok := parseMillis(text)
	if !ok {
		return time.Time{}, false, invalid(name, text, "a Unix time in milliseconds")
	}
	return at, true, nil
}

// parseMillis reads a Unix time in milliseconds: digits, without a sign.
func parseMillis(text string) (time.Time, bool) {
	ms, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return time.Time{}, false
	}
	return time.UnixMilli(int64(ms)), true
}

// textFilter is a filter whose values are free texts. It may have an older name.
type textFilter struct {
	values *[]string
	names  []string
}

func (p parameters) texts(filters []textFilter) error {
	for _, filter := range filters {
		split := wholeAndParts
		if spell := spellings[filter.names[0]]; spell != nil {
			split = func(value string) []string { return alsoIn(spell, wholeAndParts(value)) }
		}
		values, err := p.list(split, filter.names...)
		if err != nil {
			return err
		}
		*filter.values = values
	}
	return nil
}

// spellings are how values are stored that may be given in another form: URLs in ASCII. Both
// are looked for, since earlier versions stored what they were given.
var spellings = map[string]func(string) string{
	"url": asciiURL, "workflowUrl": asciiURL, "host": weburl.Host, "path": weburl.Escape,
}

func asciiURL(text string) string {
	ascii, err := weburl.ASCII("url", text)
	if err != nil {
		return text
	}
	return ascii
}

// alsoIn adds the spelling of each value to the values.
func alsoIn(spelling func(string) string, values []string) []string {
	for _, value := range values {
		values = append(values, spelling(value))
	}
	return values
}

// list returns the distinct values of a filter, which may have several names:
// each of them may be repeated, and split takes lists apart.
func (p parameters) list(split func(string) []string, names ...string) ([]string, error) {
	list := p.distinct(split, names...)
	if len(list) > maxValues {
		return nil, posthaste.Invalidf("%s has more than the %d values that it can have", names[0], maxValues)
	}
	return list, nil
}

// distinct takes lists apart and returns the texts in them that are not empty, then the
// values that are exact, each once, in order; nil if there are none.
func (p parameters) distinct(split func(string) []string, names ...string) []string {
	var texts []string
	seen := map[string]bool{"": true}
	add := func(more ...string) {
		for _, text := range more {
			if !seen[text] {
				seen[text] = true
				texts = append(texts, text)
			}
		}
	}
	for _, name := range names {
		for _, list := range p[name] {
			add(split(list)...)
		}
		add(p[name+exact]...)
	}
	return texts
}

// parts takes a list with commas apart.
func parts(value string) []string {
	list := strings.Split(value, ",")
	for i, part := range list {
		list[i] = strings.TrimSpace(part)
	}
	return list
}

// wholeAndParts is for filters whose values may contain commas themselves, such
// as URLs: a value counts as a whole and by its parts (contract, U-66).
func wholeAndParts(value string) []string {
	return append(parts(value), value)
}

// invalid is the error of a bad value.
func invalid(name, value, accepted string) error {
	return posthaste.Invalidf("%s %.100q is not %s", name, value, accepted)
}
