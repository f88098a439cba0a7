package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"posthaste"
	"posthaste/internal/api/wire"
	"posthaste/internal/store"
	"posthaste/internal/weburl"
)

// URLGroups manages URL groups.
type URLGroups interface {
	// AddEndpoints creates the group if needed.
	AddEndpoints(ctx context.Context, user, name string, endpoints []posthaste.Endpoint) error
	// RemoveEndpoints removes the group with its last endpoint, and ignores unknown ones.
	RemoveEndpoints(ctx context.Context, user, name string, endpoints []posthaste.Endpoint) error
	SetGroupHeaders(ctx context.Context, user, name string, headers map[string][]string) error
	URLGroup(ctx context.Context, user, name string) (*posthaste.URLGroup, error)
	URLGroups(ctx context.Context, user, after string) (store.List[*posthaste.URLGroup], error)
	// DeleteURLGroup ignores an unknown group.
	DeleteURLGroup(ctx context.Context, user, name string) error
}

// groupView is a URL group as shown (contract, messages 2.8).
type groupView struct {
	Name      string         `json:"name"`
	CreatedAt int64          `json:"createdAt"` // Unix ms
	UpdatedAt int64          `json:"updatedAt"` // Unix ms
	Endpoints []endpointView `json:"endpoints"`
	Headers   http.Header    `json:"headers,omitempty"`
}

// endpointView is an endpoint. SDKs compare all of it: it has no other members.
type endpointView struct {
	Name string `json:"name,omitempty"`
	URL  string `json:"url"`
}

func newGroupView(g *posthaste.URLGroup) groupView {
	return groupView{
		Name:      g.Name,
		CreatedAt: g.CreatedAt.UnixMilli(),
		UpdatedAt: g.UpdatedAt.UnixMilli(),
		Endpoints: views(g.Endpoints, func(e posthaste.Endpoint) endpointView { return endpointView(e) }),
		Headers:   posthaste.HeaderInJSON(g.Headers),
	}
}

func (a *api) listGroups(r *request) (answer, error) {
	return newList(r, newGroupView, store.URLGroupSize, func(ctx context.Context, after string) (store.List[*posthaste.URLGroup], error) {
		return a.options.Engine.URLGroups(ctx, r.user, after)
	})
}

func (a *api) getGroup(r *request, name string) (answer, error) {
	group, err := a.options.Engine.URLGroup(r.Context(), r.user, name)
	if err != nil {
		return answer{}, orNoURLGroup(err, name)
	}
	return ok(newGroupView(group)), nil
}

func (a *api) deleteGroup(r *request, name string) (answer, error) {
	return done, a.options.Engine.DeleteURLGroup(r.Context(), r.user, name)
}

// addEndpoints adds or changes endpoints of a group.
func (a *api) addEndpoints(r *request, name string) (answer, error) {
	endpoints, err := r.endpoints()
	if err != nil {
		return answer{}, err
	}
	if err := posthaste.CheckNewName("URL group name", name); err != nil {
		return answer{}, err
	}
	for i := range endpoints {
		if err := a.readEndpoint(&endpoints[i]); err != nil {
			return answer{}, err
		}
	}
	return done, a.options.Engine.AddEndpoints(r.Context(), r.user, name, endpoints)
}

// readEndpoint normalises an endpoint's URL, or returns an Error with CodeInvalid if URL or name
// cannot be sent.
func (a *api) readEndpoint(endpoint *posthaste.Endpoint) (err error) {
	if err := posthaste.CheckLen("endpoint name", endpoint.Name, posthaste.MaxNameLen); err != nil {
		return err
	}
	if !posthaste.IsHeaderValue(endpoint.Name) {
		return posthaste.Invalidf("endpoint name %q has a line break or another control character, any other text is accepted", endpoint.Name)
	}
	if endpoint.URL == "" {
		return posthaste.Invalidf("endpoint %.100q has no url, an http or https URL is expected", endpoint.Name)
	}
	endpoint.URL, err = a.decoder.URL("endpoint", endpoint.URL)
	return err
}

// removeEndpoints removes endpoints by name or URL.
func (a *api) removeEndpoints(r *request, name string) (answer, error) {
	endpoints, err := r.endpoints()
	if err != nil {
		return answer{}, err
	}
	for _, endpoint := range endpoints {
		if endpoint.Name == "" && endpoint.URL == "" {
			return answer{}, posthaste.Invalidf("an endpoint has neither a name nor a url, one of them is needed to find it")
		}
		// stored URLs may not be in ASCII
		if ascii, err := weburl.ASCII("endpoint", endpoint.URL); err == nil && ascii != endpoint.URL {
			endpoints = append(endpoints, posthaste.Endpoint{Name: endpoint.Name, URL: ascii})
		}
	}
	return done, orNoURLGroup(a.options.Engine.RemoveEndpoints(r.Context(), r.user, name, endpoints), name)
}

// endpoints returns the endpoints in the body.
func (r *request) endpoints() ([]posthaste.Endpoint, error) {
	var body struct {
		Endpoints []endpointView `json:"endpoints"`
	}
	if err := r.requireKnown(&body, "endpoints is accepted, of each a name and a url"); err != nil {
		return nil, err
	}
	if len(body.Endpoints) == 0 {
		return nil, posthaste.Invalidf(`endpoints is empty or missing, an array of at least one {"name","url"} is expected`)
	}
	return views(body.Endpoints, func(e endpointView) posthaste.Endpoint { return posthaste.Endpoint(e) }), nil
}

// setGroupHeaders replaces a group's default headers (contract, U-41).
func (a *api) setGroupHeaders(r *request, name string) (answer, error) {
	var body struct {
		Headers map[string]json.RawMessage `json:"headers"`
	}
	if err := r.requireKnown(&body, "headers is accepted"); err != nil {
		return answer{}, err
	}
	if body.Headers == nil {
		return answer{}, posthaste.Invalidf("headers is missing, an object of control headers is expected, {} for none")
	}
	header, err := wire.JSONHeader("headers", body.Headers)
	if err != nil {
		return answer{}, err
	}
	if err := a.decoder.CheckDefaults(header); err != nil {
		return answer{}, err
	}
	return done, orNoURLGroup(a.options.Engine.SetGroupHeaders(r.Context(), r.user, name, header), name)
}

// orNoURLGroup replaces store.ErrNotFound by the error that SDKs expect.
func orNoURLGroup(err error, name string) error {
	if errors.Is(err, store.ErrNotFound) {
		return posthaste.Errorf(posthaste.CodeNotFound, "topic %s not found", name)
	}
	return err
}
