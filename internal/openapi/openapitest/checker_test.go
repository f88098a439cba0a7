package openapitest_test

import (
	"net/http"
	"strings"
	"testing"

	"posthaste/internal/openapi/openapitest"
)

// exchange is one that is as described, to be made worse.
func exchange() openapitest.Exchange {
	return openapitest.Exchange{
		Method: "POST", Target: "/v2/publish/https://example.com//a?b=c&upstash-retries=3",
		RequestHeader: http.Header{"Upstash-Delay": {"10s"}},
		Status:        http.StatusOK,
		Header:        http.Header{"Content-Type": {"application/json"}},
		Body:          []byte(`{"messageId":"msg_2abc"}`),
	}
}

func TestCheck(t *testing.T) {
	tests := map[string]struct {
		change func(x *openapitest.Exchange)
		want   string // within the error; "" for none
	}{
		"as described": {func(*openapitest.Exchange) {}, ""},
		"an error": {func(x *openapitest.Exchange) {
			x.Status, x.Body = http.StatusBadRequest, []byte(`{"error":"no"}`)
		}, ""},
		"an error without a sentence": {func(x *openapitest.Exchange) {
			x.Status, x.Body = http.StatusBadRequest, []byte(`{"error":""}`)
		}, "minLength"},
		"another status":     {func(x *openapitest.Exchange) { x.Status = http.StatusCreated }, "status is not described"},
		"another media type": {func(x *openapitest.Exchange) { x.Header.Set("Content-Type", "text/plain") }, `"text/plain"`},
		"a member missing":   {func(x *openapitest.Exchange) { x.Body = []byte(`{}`) }, "messageId"},
		"a member too many":  {func(x *openapitest.Exchange) { x.Body = []byte(`{"messageId":"msg_2abc","odd":1}`) }, "odd"},
		"a member too many, of what is made of parts": {func(x *openapitest.Exchange) {
			x.Method, x.Target, x.Body = "POST", "/v2/trigger/https://example.com",
				[]byte(`{"workflowRunId":"wfr_1","workflowCreatedAt":1,"deduplicated":false,"odd":1}`)
		}, "odd"},
		"a header with another value": {func(x *openapitest.Exchange) {
			x.RequestHeader = http.Header{"Upstash-Retries": {"many"}}
		}, "Upstash-Retries"},
		"a header of the other family": {func(x *openapitest.Exchange) {
			x.RequestHeader = http.Header{"Service-Retries": {"many"}}
		}, "Upstash-Retries"},
		"a filter that is not described": {func(x *openapitest.Exchange) {
			x.Method, x.Target, x.Body = "DELETE", "/v2/messages?odd=1", []byte(`{"cancelled":1}`)
		}, `query parameter "odd"`},
		"a filter of a list that is not described": {func(x *openapitest.Exchange) {
			x.Method, x.Target, x.Body = "GET", "/v2/dlq?odd=1", []byte(`{"messages":[]}`)
		}, `query parameter "odd"`},
		"what some clients add to every request": {func(x *openapitest.Exchange) {
			x.Method, x.Target, x.Body = "GET", "/v2/dlq?qstash_token=t&upstash-retries=1", []byte(`{"messages":[]}`)
		}, ""},
		"a body that is not": {func(x *openapitest.Exchange) {
			x.Target, x.RequestBody, x.Body = "/v2/queues", []byte(`{"parallelism":1}`), nil
		}, "queueName"},
		"no such operation, and a success": {func(x *openapitest.Exchange) { x.Target = "/v2/odd" }, "is not described"},
		"no such operation, refused": {func(x *openapitest.Exchange) {
			x.Target, x.Status, x.Body = "/v2/odd", http.StatusNotFound, []byte(`{"error":"no"}`)
		}, ""},
	}
	checker, err := openapitest.New()
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			x := exchange()
			test.change(&x)
			err := checker.Check(x)
			switch {
			case test.want == "" && err != nil:
				t.Error(err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("error %v, want one with %q", err, test.want)
			}
		})
	}
}
