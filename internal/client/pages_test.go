package client_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
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
