package posthaste

import (
	"cmp"
	"net/http"
	"slices"
	"time"
)

// URLGroup is a named set of endpoints. What is published to it goes to each.
type URLGroup struct {
	Name      string
	Endpoints []Endpoint  // in the order they were added
	Headers   http.Header // control headers that every publication to it has by default
	CreatedAt time.Time
	UpdatedAt time.Time
}

// Endpoint is a destination within a group. The name is optional and unique
// within the group, and so is the URL.
type Endpoint struct {
	Name string
	URL  string
}

// MaxEndpoints is how many endpoints a URL group may have.
const MaxEndpoints = 1000

// Upsert adds an endpoint, or changes the one it names: by its name if the group
// has that name, else by its URL. One that comes without a name keeps the name it
// has. It is an error if name and URL belong to different endpoints, or if there would be
// more than MaxEndpoints.
func (g *URLGroup) Upsert(e Endpoint) error {
	byName, byURL := -1, slices.IndexFunc(g.Endpoints, func(o Endpoint) bool { return o.URL == e.URL })
	if e.Name != "" {
		byName = slices.IndexFunc(g.Endpoints, func(o Endpoint) bool { return o.Name == e.Name })
	}
	switch {
	case byName >= 0 && byURL >= 0 && byName != byURL:
		return Invalidf("endpoint name %q and url %q belong to two different endpoints of %s", clip(e.Name), clip(e.URL), g.Name)
	case byName >= 0:
		g.Endpoints[byName] = e
	case byURL >= 0:
		e.Name = cmp.Or(e.Name, g.Endpoints[byURL].Name)
		g.Endpoints[byURL] = e
	case len(g.Endpoints) >= MaxEndpoints:
		return Invalidf("endpoint %q is one too many for %s: a URL group has up to %d", clip(e.URL), g.Name, MaxEndpoints)
	default:
		g.Endpoints = append(g.Endpoints, e)
	}
	return nil
}

// Remove takes out the endpoint with the name, or with the URL if the name is
// empty. One that is not there is no error.
func (g *URLGroup) Remove(e Endpoint) {
	g.Endpoints = slices.DeleteFunc(g.Endpoints, func(o Endpoint) bool {
		if e.Name != "" {
			return o.Name == e.Name
		}
		return o.URL == e.URL
	})
}
