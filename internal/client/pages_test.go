package client_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"posthaste/internal/client"
)

// paged answers with the page that the cursor is the number of, of three; the
// page with the number broken is an error.
func paged(broken string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		cursor := r.URL.Query().Get("cursor")
		if cursor == broken {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		next := map[string]string{"0": "1", "1": "2", "2": ""}[cursor]
		_, _ = fmt.Fprintf(w, `{"page":%s,"label":%q,"cursor":%q}`, cursor, r.URL.Query().Get("label"), next)
	}
}

func TestPages(t *testing.T) {
	tests := []struct {
		name, broken string
		most         int
		want         []string
		failed       bool
	}{
		{"to the end", "", 10, []string{`{"page":0,"label":"a","cursor":"1"}`, `{"page":1,"label":"a","cursor":"2"}`, `{"page":2,"label":"a","cursor":""}`}, false},
		{"not further than wanted", "1", 1, []string{`{"page":0,"label":"a","cursor":"1"}`}, false},
		{"up to an error", "1", 10, []string{`{"page":0,"label":"a","cursor":"1"}`}, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			query := url.Values{"label": {"a"}, "cursor": {"0"}}
			var got []string
			var failure error
			for page, err := range newClient(t, paged(test.broken)).Pages(t.Context(), client.Request{Path: "/", Query: query}) {
				if failure = err; err == nil {
					got = append(got, string(page.Body))
				}
				if len(got) == test.most {
					break
				}
			}
			if !slices.Equal(got, test.want) || (failure != nil) != test.failed {
				t.Errorf("Pages = %q, %v, want %q", got, failure, test.want)
			}
			if query.Encode() != "cursor=0&label=a" {
				t.Errorf("the request was changed to %v", query)
			}
		})
	}
}

func TestLines(t *testing.T) {
	stream := func(text string, aborted bool) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", r.Header.Get("Accept"))
			_, _ = io.WriteString(w, text)
			_ = http.NewResponseController(w).Flush()
			if aborted {
				panic(http.ErrAbortHandler)
			}
		}
	}
	large := `"` + strings.Repeat("x", 1<<20) + `"`
	tests := []struct {
		name    string
		handler http.HandlerFunc
		want    []string
		failure error
	}{
		{"none", stream("", false), nil, nil},
		{"some", stream("{}\n[1]\n", false), []string{"{}", "[1]"}, nil},
		{"a large one", stream("{}\n"+large+"\n", false), []string{"{}", large}, nil},
		{"cut off between lines", stream("{}\n[1]\n", true), []string{"{}", "[1]"}, io.ErrUnexpectedEOF},
		{"cut off in a line", stream("{}\n1234", true), []string{"{}"}, io.ErrUnexpectedEOF},
		{"ended in a line", stream("{}\n1234", false), []string{"{}"}, io.ErrUnexpectedEOF},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var got []string
			var failure error
			for line, err := range newClient(t, test.handler).Lines(t.Context(), client.Request{Path: "/"}) {
				if failure = err; err == nil {
					got = append(got, string(line))
				}
			}
			if !slices.Equal(got, test.want) || !errors.Is(failure, test.failure) {
				t.Errorf("%d lines and %v, want %d and %v", len(got), failure, len(test.want), test.failure)
			}
		})
	}
	t.Run("not further than wanted", func(t *testing.T) {
		for line, err := range newClient(t, stream("{}\n[1]\n", true)).Lines(t.Context(), client.Request{Path: "/"}) {
			if err != nil || string(line) != "{}" {
				t.Errorf("the first line is %q, %v", line, err)
			}
			break
		}
	})
	t.Run("a server without this stream", func(t *testing.T) {
		want := `the server answers 200: "application/json" and not "application/x-ndjson": does it have this stream?`
		c := newClient(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json; charset=utf-8")
		})
		for _, err := range c.Lines(t.Context(), client.Request{Path: "/"}) {
			if err == nil || err.Error() != want {
				t.Errorf("Lines fails with %v, want %s", err, want)
			}
		}
	})
}
