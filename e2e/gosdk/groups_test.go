package gosdk

import (
	"slices"
	"testing"

	qstash "github.com/upstash/qstash-go"
)

// newGroup makes a group of two endpoints that is deleted with the test.
func newGroup(t *testing.T, name string, s *sink) string {
	t.Helper()
	check(t, client.UrlGroups().UpsertEndpoints(name, []qstash.Endpoint{
		{Name: "First endpoint", Url: s.url + "/first"},
		{Url: s.url + "/second"},
	}))
	t.Cleanup(func() { check(t, client.UrlGroups().Delete(name)) })
	return name
}

func TestURLGroup(t *testing.T) {
	s := newSink(t)
	name := newGroup(t, "go-group", s)
	first, second := qstash.Endpoint{Name: "First endpoint", Url: s.url + "/first"}, qstash.Endpoint{Url: s.url + "/second"}
	group := must(client.UrlGroups().Get(name))(t)
	equal(t, "the name", group.Name, name)
	equal(t, "the endpoints", group.Endpoints, []qstash.Endpoint{first, second})
	if group.CreatedAt == 0 || group.UpdatedAt < group.CreatedAt {
		t.Errorf("made at %d and changed at %d", group.CreatedAt, group.UpdatedAt)
	}
	groups := must(client.UrlGroups().List())(t)
	if !slices.ContainsFunc(groups, func(g qstash.UrlGroup) bool { return g.Name == name }) {
		t.Errorf("the list %+v lacks %s", groups, name)
	}

	check(t, client.UrlGroups().RemoveEndpoints(name, []qstash.Endpoint{{Name: first.Name}}))
	equal(t, "the endpoints left", must(client.UrlGroups().Get(name))(t).Endpoints, []qstash.Endpoint{second})
	check(t, client.UrlGroups().RemoveEndpoints(name, []qstash.Endpoint{second}))
	_, err := client.UrlGroups().Get(name)
	checkError(t, err, name)
}

func TestURLGroupPublishes(t *testing.T) {
	s := newSink(t)
	name := newGroup(t, "go-group-publish", s)
	const queue = "go-group"
	body := map[string]any{"order": 7}
	tests := map[string]struct {
		call func() ([]qstash.PublishOrEnqueueResponse, error)
		body string
	}{
		"Publish": {func() ([]qstash.PublishOrEnqueueResponse, error) {
			return client.UrlGroups().Publish(qstash.PublishUrlGroupOptions{UrlGroup: name, Body: "plain"})
		}, "plain"},
		"PublishJSON": {func() ([]qstash.PublishOrEnqueueResponse, error) {
			return client.UrlGroups().PublishJSON(qstash.PublishUrlGroupJSONOptions{UrlGroup: name, Body: body})
		}, `{"order":7}`},
		"Enqueue": {func() ([]qstash.PublishOrEnqueueResponse, error) {
			return client.UrlGroups().Enqueue(qstash.EnqueueUrlGroupOptions{
				Queue: queue, PublishUrlGroupOptions: qstash.PublishUrlGroupOptions{UrlGroup: name, Body: "queued"},
			})
		}, "queued"},
		"EnqueueJSON": {func() ([]qstash.PublishOrEnqueueResponse, error) {
			return client.UrlGroups().EnqueueJSON(qstash.EnqueueUrlGroupJSONOptions{
				Queue: queue, PublishUrlGroupJSONOptions: qstash.PublishUrlGroupJSONOptions{UrlGroup: name, Body: body},
			})
		}, `{"order":7}`},
	}
	for method, test := range tests {
		t.Run(method, func(t *testing.T) {
			receipts := must(test.call())(t)
			equal(t, "the number of receipts", len(receipts), 2)
			for i, path := range []string{"/first", "/second"} {
				equal(t, "the URL", receipts[i].Url, s.url+path)
				got := s.delivered(t, receipts[i].MessageId)
				equal(t, "the delivery", [2]string{got.path, got.body}, [2]string{path, test.body})
				equal(t, "the group of the message", must(client.Messages().Get(receipts[i].MessageId))(t).UrlGroup, name)
			}
		})
	}
}

func TestURLGroupMustExist(t *testing.T) {
	_, err := client.UrlGroups().Publish(qstash.PublishUrlGroupOptions{UrlGroup: "nowhere"})
	checkError(t, err, "topic nowhere not found")
	_, err = client.UrlGroups().Publish(qstash.PublishUrlGroupOptions{})
	checkError(t, err, "a non-empty destination must be provided")
	check(t, client.UrlGroups().Delete("nowhere"))
}
