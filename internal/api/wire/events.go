package wire

import (
	"net/url"

	"posthaste/internal/store"
)

// Events reads the parameters of a log query (contract 4.1, messages 2.10). The caller applies
// trimBody, see BodyLimit.
func Events(params url.Values, count Count) (store.EventQuery, error) {
	p := parameters(params)
	s, err := p.selected(log, count, false, "trimBody")
	if err == nil {
		err = s.readCursor(p)
	}
	return store.EventQuery{
		Filter: s.Filter, Low: s.Low, High: s.High, OldestFirst: s.OldestFirst, Limit: s.Limit, Bare: s.BodyLimit == 0,
	}, err
}
