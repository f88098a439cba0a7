package selection

import (
	"maps"
	"net/url"
	"slices"
	"strings"

	"posthaste"
)

// Background returns the filter of a bulk call that is to go on behind its
// request: its parameters without those that have no effect. It works on all that
// match, in an order of its own, so it takes neither a count nor a cursor.
func Background(params url.Values) (url.Values, error) {
	for _, name := range []string{"count", "cursor"} {
		if _, given := params[name]; given {
			return nil, posthaste.Invalidf("%s cannot be given with async=true, which works on all that the filters match", name)
		}
	}
	filter := maps.Clone(params)
	maps.DeleteFunc(filter, func(name string, _ []string) bool {
		return name == "async" || slices.Contains(tolerated, name)
	})
	return filter, nil
}

// Flag returns the value of a parameter that is true or false, in any letter
// case; false if it is not given. Without a value it is neither: whoever writes
// ?dryRun means the opposite of who leaves it out.
func Flag(params url.Values, name string) (bool, error) {
	text, err := parameters(params).one(name)
	if _, given := params[name]; !given || err != nil {
		return false, err
	}
	switch strings.ToLower(text) {
	case "true":
		return true, nil
	case "false":
		return false, nil
	default:
		return false, invalid(name, text, "true or false")
	}
}
