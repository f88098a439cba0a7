package api

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"testing"
	"time"

	"posthaste"
	"posthaste/internal/api/wire"
	"posthaste/internal/engine"
)

// checkRefusal fails unless an error is one the caller can act on.
func checkRefusal(t *testing.T, err error) {
	t.Helper()
	if posthaste.ErrorCode(err) != posthaste.CodeInvalid {
		t.Fatalf("error %v, want CodeInvalid", err)
	}
}

// fuzzEngine accepts every batch and knows every URL group.
type fuzzEngine struct {
	Engine
	t *testing.T
}

func (fuzzEngine) URLGroup(_ context.Context, _, name string) (*posthaste.URLGroup, error) {
	return &posthaste.URLGroup{Name: name, Headers: http.Header{"Upstash-Retries": {"1"}}}, nil
}

func (e fuzzEngine) PublishBatch(_ context.Context, _ string, publications []engine.Publication) ([]engine.Result, error) {
	results := make([]engine.Result, len(publications))
	for i, p := range publications {
		if p.MaxRetries() < 0 || p.Timeout < 0 || len(p.Body) > fuzzMaxBody || p.Queue != "" && posthaste.CheckNewName("queue", p.Queue) != nil {
			e.t.Fatalf("publication %+v", p)
		}
		results[i].Receipts = []engine.Receipt{{URL: p.Destination}}
	}
	return results, nil
}

const fuzzMaxBody = 50

// FuzzBatch checks that any body is either refused, or an array that is answered
// with one as long.
func FuzzBatch(f *testing.F) {
	f.Add(`[{"destination":"https://h","body":"b","headers":{"upstash-retries":["1"]},"queue":"q"}]`)
	f.Add(`[{"destination":"g","body":{"a":1}},null,7,"x",[{}],{"headers":{"a b":1}}]`)
	f.Add(` [ ] `)
	f.Add(`[{"destination":"https://h","Body":null,"headers":{"X":"\u0000","x":null,"Upstash-Header-Forward":true}}]`)
	f.Fuzz(func(t *testing.T, body string) {
		a := New(Options{Engine: fuzzEngine{t: t}, MaxBody: fuzzMaxBody}).(*api)
		r := bodyOf(body)
		r.Method = http.MethodPost
		got, err := a.publishBatch(r)
		var items []json.RawMessage
		if wellFormed := json.Unmarshal([]byte(body), &items) == nil && items != nil; !wellFormed {
			checkRefusal(t, err)
			return
		}
		if err != nil {
			t.Fatalf("publishBatch(%q): %v", body, err)
		}
		var answers []json.RawMessage
		if err := json.Unmarshal(got.body.(rawJSON), &answers); err != nil || len(answers) != len(items) {
			t.Fatalf("publishBatch(%q) answers %s", body, got.body)
		}
	})
}

// FuzzBulkParameters checks that any body is refused or becomes parameters that
// have every name of it, and that those of the query stay.
func FuzzBulkParameters(f *testing.F) {
	f.Add(`{"dlqIds":["a",1,null],"fromDate":1700000000000,"async":true}`)
	f.Add(`{"label":"body","x":null,"":[]}`)
	f.Add(`{"dlqIds":["a,b"],"label":["query"],"x":[" "]}`)
	f.Add(`null`)
	f.Add(`{"a":{}}`)
	f.Fuzz(func(t *testing.T, body string) {
		params, _, err := bodyOf(body).callParameters("dlqIds")
		if err != nil {
			checkRefusal(t, err)
			return
		}
		if !slices.Equal(params["label"], []string{"query"}) {
			t.Fatalf("body %q changes the query to %v", body, params)
		}
		var fields map[string]any
		if body == "" {
			return
		}
		if err := json.Unmarshal([]byte(body), &fields); err != nil || fields == nil {
			t.Fatalf("body %q is accepted", body)
		}
		for name := range fields {
			if !params.Has(name) && !params.Has(name+"[]") {
				t.Fatalf("body %q loses %q: %v", body, name, params)
			}
		}
	})
}

// FuzzPin checks that any parameters are refused or name a limit that can be.
func FuzzPin(f *testing.F) {
	f.Add("parallelism=1&rate=2&period=3")
	f.Add("rate=0")
	f.Add("period=604801")
	f.Fuzz(func(t *testing.T, raw string) {
		params, err := url.ParseQuery(raw)
		if err != nil {
			return
		}
		limit, err := parsePin(params)
		if err != nil {
			checkRefusal(t, err)
			return
		}
		if limit.Parallelism < 0 || limit.Rate < 0 || limit.Period < 0 || limit.Period > wire.MaxFlowPeriod ||
			limit.Period%time.Second != 0 || limit == (posthaste.FlowLimit{}) {
			t.Fatalf("parsePin(%q) = %+v", raw, limit)
		}
	})
}
