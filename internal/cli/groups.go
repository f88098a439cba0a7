package cli

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"

	"posthaste"
	"posthaste/internal/client"
)

// groupsCommand is about URL groups, which the API calls topics.
type groupsCommand struct {
	List   listThings[urlGroups]   `cmd:"" help:"List URL groups."`
	Show   showThing[urlGroups]    `cmd:"" set:"idhelp=Name of a URL group." help:"Show a URL group and its endpoints."`
	Set    setGroupCommand         `cmd:"" help:"Add endpoints to a URL group, or set the default settings of its messages."`
	Remove removeEndpointsCommand  `cmd:"" help:"Remove endpoints from a URL group. A group without endpoints is deleted."`
	Delete deleteThings[urlGroups] `cmd:"" set:"thing=URL group" help:"Delete URL groups. Messages already published are still delivered."`
}

type urlGroups struct{}

// endpoint is a member of a URL group.
type endpoint struct {
	Name string `json:"name,omitempty" yaml:"name,omitempty"`
	URL  string `json:"url,omitempty" yaml:"url"`
}

// listedGroup is what is shown of a URL group.
type listedGroup struct {
	Name      string              `json:"name"`
	CreatedAt int64               `json:"createdAt"` // Unix ms
	UpdatedAt int64               `json:"updatedAt"` // Unix ms
	Endpoints []endpoint          `json:"endpoints"`
	Headers   map[string][]string `json:"headers"`
}

func (urlGroups) kind() kind {
	return kind{
		thing: "URL group", command: "groups", paths: []string{"/v2/topics"}, list: "topics", id: "name",
		table: tableOf(columns{{"GROUP", 24}, {"ENDPOINTS", 9}, {name: "URLS"}}, func(g listedGroup) []cell {
			urls := make([]string, len(g.Endpoints))
			for i, e := range g.Endpoints {
				urls[i] = e.URL
			}
			return []cell{{text: g.Name}, number(len(urls)), {text: strings.Join(urls, " ")}}
		}),
		print: fieldsOf(func(g listedGroup) []field {
			fields := []field{{"URL group", g.Name}, {"created", at(g.CreatedAt).text}, {"changed", at(g.UpdatedAt).text}}
			for _, e := range g.Endpoints {
				fields = append(fields, field{"endpoint", strings.TrimSpace(e.URL + " " + e.Name)})
			}
			return append(fields, headerFields(g.Headers)...)
		}),
	}
}

// headerFields returns headers as fields, by name.
func headerFields(header map[string][]string) (fields []field) {
	for name, values := range header {
		fields = append(fields, field{"header", name + ": " + strings.Join(values, ", ")})
	}
	slices.SortFunc(fields, func(a, b field) int { return strings.Compare(a.value, b.value) })
	return fields
}

// setGroupCommand adds to a URL group.
type setGroupCommand struct {
	Name     string   `arg:"" help:"Name of the URL group."`
	Endpoint []string `env:"-" sep:"none" placeholder:"[NAME=]URL" help:"Endpoint to add or change; can be given more than once."`
	commonSettings
	callbackSetting
	headerFlags
	oneOutput
	connection
}

// Validate returns a sentence about the first setting that is wrong.
func (c *setGroupCommand) Validate() error {
	if len(c.Endpoint) == 0 && len(c.settings()) == 0 {
		return posthaste.Invalidf("there is nothing to set: give --endpoint, or a setting of messages such as --retries")
	}
	return cmp.Or(c.headerFlags.check(), c.connection.Validate())
}

// settings returns the settings as the API takes them.
func (c *setGroupCommand) settings() http.Header {
	header := tagged(c.commonSettings)
	addAll(header, tagged(c.callbackSetting))
	c.forward(header)
	return header
}

// Run sets the group.
func (c *setGroupCommand) Run(t terminal) error {
	var requests []client.Request
	if len(c.Endpoint) > 0 {
		endpoints := make([]endpoint, len(c.Endpoint))
		for i, text := range c.Endpoint {
			endpoints[i] = parseEndpoint(text)
		}
		requests = append(requests, changeEndpoints(http.MethodPost, c.Name, endpoints))
	}
	if header := c.settings(); len(header) > 0 {
		requests = append(requests, patchGroup(c.Name, header))
	}
	return c.setThing(t, c.Output, "URL group", c.Name, requests...)
}

// parseEndpoint reads NAME=URL, or a URL.
func parseEndpoint(text string) endpoint {
	if name, url, named := strings.Cut(text, "="); named && !strings.ContainsAny(name, ":/?") {
		return endpoint{name, url}
	}
	return endpoint{URL: text}
}

func changeEndpoints(method, group string, endpoints []endpoint) client.Request {
	return client.Request{Method: method, Path: below("/v2/topics", group) + "/endpoints", Body: map[string]any{"endpoints": endpoints}}
}

func patchGroup(name string, header http.Header) client.Request {
	return client.Request{Method: http.MethodPatch, Path: below("/v2/topics", name), Body: map[string]any{"headers": header}}
}

// removeEndpointsCommand takes endpoints out of a URL group.
type removeEndpointsCommand struct {
	Name      string   `arg:"" help:"Name of the URL group."`
	Endpoints []string `arg:"" name:"endpoint" help:"Names or URLs of endpoints."`
	oneOutput
	connection
}

// Run removes the endpoints.
func (c *removeEndpointsCommand) Run(t terminal) error {
	endpoints := make([]endpoint, len(c.Endpoints))
	for i, text := range c.Endpoints {
		endpoints[i] = endpoint{Name: text}
		if strings.Contains(text, ":") {
			endpoints[i] = endpoint{URL: text}
		}
	}
	return c.call(t, func(ctx context.Context, server *client.Client) error {
		if err := c.check(ctx, server); err != nil {
			return err
		}
		if err := server.Do(ctx, changeEndpoints(http.MethodDelete, c.Name, endpoints), nil); err != nil {
			return err
		}
		return writeResult(t, c.Output, map[string]any{"removed": c.Endpoints}, "%s removed from URL group %s", counted(len(endpoints), "endpoint"), shown(c.Name))
	})
}

// check returns a sentence about the first endpoint that the group has not.
func (c *removeEndpointsCommand) check(ctx context.Context, server *client.Client) error {
	var group struct{ Endpoints []endpoint }
	err := server.Do(ctx, client.Request{Path: below("/v2/topics", c.Name)}, &group)
	if isNotFound(err) {
		return urlGroups{}.kind().unknown(c.Name)
	}
	for _, name := range c.Endpoints {
		is := func(e endpoint) bool { return name == e.Name || name == e.URL }
		if err == nil && !slices.ContainsFunc(group.Endpoints, is) {
			err = posthaste.Errorf(posthaste.CodeNotFound, "URL group %q has no endpoint %q: give a name or URL that posthaste groups show %[1]s lists", c.Name, name)
		}
	}
	return err
}
