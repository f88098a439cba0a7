package client_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"posthaste"
	"posthaste/internal/client"
)

// Contract, decision 27.
func TestFind(t *testing.T) {
	development := client.Server{URL: "http://127.0.0.1:8080", Token: "dev"}
	tests := []struct {
		name        string
		given       client.Server
		environment map[string]string
		want        client.Server
	}{
		{"nothing", client.Server{}, nil, development},
		{"given beats all",
			client.Server{URL: "http://given", Token: "given"},
			map[string]string{"POSTHASTE_URL": "http://a", "POSTHASTE_TOKEN": "a", "QSTASH_URL": "http://b", "QSTASH_TOKEN": "b"},
			client.Server{URL: "http://given", Token: "given"}},
		{"our names beat those of SDKs",
			client.Server{},
			map[string]string{"POSTHASTE_URL": "http://a", "POSTHASTE_TOKEN": "a", "QSTASH_URL": "http://b", "QSTASH_TOKEN": "b"},
			client.Server{URL: "http://a", Token: "a"}},
		{"those of SDKs",
			client.Server{},
			map[string]string{"QSTASH_URL": "http://b", "QSTASH_TOKEN": "b"},
			client.Server{URL: "http://b", Token: "b"}},
		{"one by one",
			client.Server{URL: "http://given"},
			map[string]string{"POSTHASTE_URL": "http://a", "QSTASH_TOKEN": "b"},
			client.Server{URL: "http://given", Token: "b"}},
		{"empty is none",
			client.Server{},
			map[string]string{"POSTHASTE_URL": "", "QSTASH_URL": "http://b", "POSTHASTE_TOKEN": "", "QSTASH_TOKEN": ""},
			client.Server{URL: "http://b", Token: "dev"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			getenv := func(name string) string { return test.environment[name] }
			if got := client.Find(test.given, getenv, development); got != test.want {
				t.Errorf("Find = %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestNewRefuses(t *testing.T) {
	for _, text := range []string{"", "localhost:8080", "127.0.0.1:8080", "ftp://h", "http://", "http://h/?a=b", "http://h/#a", "http://h:port", "http://\x7f"} {
		t.Run(text, func(t *testing.T) {
			_, err := client.New(client.Options{Server: client.Server{URL: text}})
			if posthaste.ErrorCode(err) != posthaste.CodeInvalid || !strings.Contains(err.Error(), "url ") {
				t.Errorf("New = %v, want invalid and the name url", err)
			}
		})
	}
}

// newClient returns a client of a handler.
func newClient(t *testing.T, handler http.HandlerFunc) *client.Client {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return newClientOf(t, client.Options{Server: client.Server{URL: server.URL + "/", Token: "secret"}, UserAgent: "test/1"})
}

func newClientOf(t *testing.T, options client.Options) *client.Client {
	t.Helper()
	c, err := client.New(options)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestDo(t *testing.T) {
	type seen struct{ Method, Target, Authorization, UserAgent, ContentType, Own, Body string }
	var got seen
	c := newClient(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = seen{r.Method, r.RequestURI, r.Header.Get("Authorization"), r.UserAgent(), r.Header.Get("Content-Type"), r.Header.Get("X-Own"), string(body)}
		_, _ = io.WriteString(w, `{"answer":42}`)
	})
	tests := []struct {
		name    string
		request client.Request
		want    seen
	}{
		{"plain", client.Request{Path: "/v2/queues"},
			seen{"GET", "/v2/queues", "Bearer secret", "test/1", "", "", ""}},
		{"with everything",
			client.Request{
				Method: "POST", Path: "/v2/dlq/retry%2Fx", Query: url.Values{"label": {"a&b", "c"}},
				Header: http.Header{"X-Own": {"1"}}, Body: map[string]int{"n": 1},
			},
			seen{"POST", "/v2/dlq/retry%2Fx?label=a%26b&label=c", "Bearer secret", "test/1", "application/json", "1", `{"n":1}`}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var answer struct{ Answer int }
			if err := c.Do(t.Context(), test.request, &answer); err != nil || answer.Answer != 42 {
				t.Errorf("Do = %+v, %v", answer, err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("the server has seen (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDoFails(t *testing.T) {
	answer := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	tests := []struct {
		name    string
		handler http.HandlerFunc
		want    string
	}{
		{"a refusal", answer(400, `{"error":"count \"x\" is not a whole number"}`),
			`the server answers 400: count "x" is not a whole number`},
		{"a refusal that says nothing", answer(502, "<html>"),
			"the server answers 502: Bad Gateway, and no more: is it a Posthaste server?"},
		{"a redirect, which is not followed", answer(302, ""),
			"the server answers 302: Found, and no more: is it a Posthaste server?"},
		{"an answer that is no JSON", answer(200, "hello"),
			"read the answer of /v2/x: invalid character 'h' looking for beginning of value: is it a Posthaste server?"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			err := newClient(t, test.handler).Do(t.Context(), client.Request{Path: "/v2/x"}, new(json.RawMessage))
			if err == nil || err.Error() != test.want {
				t.Errorf("Do = %v, want %s", err, test.want)
			}
		})
	}
	t.Run("no server", func(t *testing.T) {
		server := httptest.NewServer(nil)
		server.Close()
		c := newClientOf(t, client.Options{Server: client.Server{URL: server.URL, Token: "secret"}})
		err := c.Do(t.Context(), client.Request{Path: "/v2/x?y=z"}, nil)
		if err == nil || !strings.HasPrefix(err.Error(), "no answer from "+server.URL+": dial tcp") {
			t.Errorf("Do = %v", err)
		}
	})
}

func TestStatusOfARefusal(t *testing.T) {
	c := newClient(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
	err := c.Do(t.Context(), client.Request{Path: "/"}, nil)
	if refused, ok := errors.AsType[*client.StatusError](err); !ok || refused.Status != http.StatusForbidden {
		t.Errorf("Do = %#v, want a StatusError of 403", err)
	}
}
