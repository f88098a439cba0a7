package wire

import (
	"encoding/json"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"posthaste"
	"posthaste/internal/store/record"
)

// checkRefusal fails unless an error is one the caller can act on.
func checkRefusal(t *testing.T, err error) {
	t.Helper()
	if posthaste.ErrorCode(err) != posthaste.CodeInvalid {
		t.Fatalf("error %v, want CodeInvalid", err)
	}
}

// FuzzDestination checks that what is accepted is a URL that can be requested,
// or a name.
func FuzzDestination(f *testing.F) {
	for _, seed := range []string{
		"https://example.com//a/../b?c=%20", "HTTP://h", "https%3A%2F%2Fh%3Fa?b", "https:/h", "orders", "a%2Fb",
		"api/llm", "ftp://h", "localhost:80", "", "?a", "https://h/ ", "http:/%2f", "https%3a%2f",
	} {
		f.Add(seed)
	}
	d := Decoder{CheckHost: func(string) error { return nil }}
	f.Fuzz(func(t *testing.T, text string) {
		got, isGroup, err := d.Destination(text)
		if err != nil {
			checkRefusal(t, err)
			return
		}
		if isGroup {
			if posthaste.CheckName("destination", got) != nil {
				t.Fatalf("destination(%q) = name %q", text, got)
			}
			return
		}
		u, err := url.Parse(got)
		if err != nil || u.Hostname() == "" || strings.Contains(got, " ") {
			t.Fatalf("destination(%q) = URL %q", text, got)
		}
		if IsURL(text) && got != text {
			t.Fatalf("destination(%q) = %q, want it as it was given", text, got)
		}
	})
}

// FuzzSplitQuery checks that dividing a query loses nothing, and that nothing
// of ours is left for the destination.
func FuzzSplitQuery(f *testing.F) {
	for _, seed := range []string{
		"", "&", "a=1&&b", "qstash_token=x&a=%zz", "upstash-retries=3&a=b", "Service%2DLabel=%2C&service-id=1", "upstash-x=%z",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		rest, reserved, err := SplitQuery(raw)
		if err != nil {
			checkRefusal(t, err)
			return
		}
		if len(reserved) == 0 && rest != raw {
			t.Fatalf("SplitQuery(%q) leaves %q, want all of it", raw, rest)
		}
		again, left, err := SplitQuery(rest)
		if err != nil || again != rest || len(left) > 0 {
			t.Fatalf("SplitQuery(%q) leaves %q, and of that %q", raw, rest, again)
		}
		if pairs := strings.Count(rest, "&") + len(reserved); rest != "" && pairs != strings.Count(raw, "&") {
			t.Fatalf("SplitQuery(%q) leaves %q and %d parameters", raw, rest, len(reserved))
		}
	})
}

// FuzzPublication checks that any set of headers, one a line as "Name: value",
// is either refused or makes a publication that can be delivered.
func FuzzPublication(f *testing.F) {
	f.Add("Upstash-Retries: 3\nService-Retries: 4\nUpstash-Forward-X: 1\nContent-Type: text/plain")
	f.Add("Upstash-Callback: https://h\nUpstash-Callback-Forward-A: b\nService-Callback-Retries: 1\nUpstash-Callback-Delay: 1d")
	f.Add("Upstash-Flow-Control-Key: k\nUpstash-Flow-Control-Value: rate=1, period=1m\nUpstash-Label: a,,b")
	f.Add("Upstash-Header-Forward: true\nConnection: x\nX: y\nUpstash-Redact-Fields: body, header[X]\nUpstash-Forward-: 1")
	f.Add("Upstash-Delay: 1.5s\nUpstash-Not-Before: 5\nUpstash-Timeout: 1\nUpstash-Retry-Delay: pow(2, retried)")
	d := Decoder{CheckHost: func(string) error { return nil }}
	f.Fuzz(func(t *testing.T, lines string) {
		header := parseLines(lines)
		c, err := Collect(header, nil)
		if err != nil {
			checkRefusal(t, err)
			return
		}
		p, err := d.Publication(c, Incoming{Header: header, OwnsAuthorization: true})
		if err != nil {
			checkRefusal(t, err)
			return
		}
		checkSettings(t, p.Settings)
		for _, callback := range []*posthaste.Callback{p.Callback, p.FailureCallback} {
			if callback == nil {
				continue
			}
			if _, err := posthaste.ParseURL("callback", callback.URL, callback.URL); err != nil || callback.Delay < 0 {
				t.Fatalf("callback %+v", callback)
			}
			checkSettings(t, callback.Settings)
		}
	})
}

func checkSettings(t *testing.T, s posthaste.Settings) {
	t.Helper()
	if !slices.Contains(methods, s.Verb()) || s.MaxRetries() < 0 || s.Timeout < 0 {
		t.Fatalf("settings %+v", s)
	}
	if (s.FlowControl.Key == "") != (s.FlowControl.FlowLimit == posthaste.FlowLimit{}) {
		t.Fatalf("half a flow control: %+v", s.FlowControl)
	}
	for name, values := range s.Header {
		if textproto.CanonicalMIMEHeaderKey(name) != name || !posthaste.IsHeaderName(name) {
			t.Fatalf("header %q", name)
		}
		if posthaste.IsConnectionHeader(name) || len(values) == 0 {
			t.Fatalf("header %q with %d values", name, len(values))
		}
	}
}

// parseLines reads headers as a server leaves them: names are canonical and
// valid, values are valid.
func parseLines(lines string) http.Header {
	header := http.Header{}
	for line := range strings.SplitSeq(lines, "\n") {
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		if posthaste.IsHeaderName(name) && posthaste.IsHeaderValue(value) {
			header.Add(name, value)
		}
	}
	return header
}

// FuzzControlsInQuery checks that no query gets a name or a value past us that
// could not be sent as a header.
func FuzzControlsInQuery(f *testing.F) {
	f.Add("upstash-forward-x", "a\r\nb: c")
	f.Add("service-label", "x")
	f.Add("upstash-forward-x\ny", "1")
	f.Add(TokenParameter, "\x00")
	f.Fuzz(func(t *testing.T, name, value string) {
		c, err := Collect(nil, []Parameter{{name, value}})
		if err != nil {
			checkRefusal(t, err)
			return
		}
		for suffix, given := range c.values {
			if !posthaste.IsHeaderName(given.name) || !strings.HasSuffix(given.name, suffix) || !posthaste.IsHeaderValue(given.text()) {
				t.Fatalf("control %q = %+v", suffix, given)
			}
		}
	})
}

func FuzzRedaction(f *testing.F) {
	f.Add("body, header[Authorization], headers")
	f.Add("header[[a]],body[]")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := parseRedaction(given(text))
		if err != nil {
			checkRefusal(t, err)
			return
		}
		for _, name := range r.Headers {
			if http.CanonicalHeaderKey(name) != name || !posthaste.IsHeaderName(name) {
				t.Fatalf("parseRedaction(%q) = header %q", text, name)
			}
		}
	})
}

func FuzzFlowLimit(f *testing.F) {
	f.Add("parallelism=2, rate=10,period=1m")
	f.Add("rate=0,period=8d")
	f.Fuzz(func(t *testing.T, text string) {
		limit, err := parseFlowLimit(given(text))
		if err != nil {
			checkRefusal(t, err)
			return
		}
		if limit.Parallelism < 0 || limit.Rate < 0 || limit.Period < 0 || limit.Period > MaxFlowPeriod ||
			limit == (posthaste.FlowLimit{}) {
			t.Fatalf("parseFlowLimit(%q) = %+v", text, limit)
		}
	})
}

func FuzzLabels(f *testing.F) {
	f.Add("a, b,,a")
	f.Add(strings.Repeat("x", 300))
	f.Fuzz(func(t *testing.T, text string) {
		labels, err := parseLabels(given(text))
		if err != nil {
			checkRefusal(t, err)
			return
		}
		for i, label := range labels {
			if label == "" || len(label) > posthaste.MaxLabelLen || strings.ContainsRune(label, ',') || slices.Contains(labels[:i], label) {
				t.Fatalf("parseLabels(%q) = %q", text, labels)
			}
		}
		if len(labels) > posthaste.MaxLabels {
			t.Fatalf("parseLabels(%q) has %d labels", text, len(labels))
		}
	})
}

// FuzzOverrides checks that any headers are refused or make overrides that
// survive being stored with a bulk action.
func FuzzOverrides(f *testing.F) {
	f.Add("Upstash-Retries: 3\nService-Retries: 4\nUpstash-Forward-X: 1")
	f.Add("Upstash-Flow-Control-Key: k\nUpstash-Delay: 1m\nUpstash-Callback: https://h\nService-Callback-Retries: 1")
	f.Fuzz(func(t *testing.T, lines string) {
		header := parseLines(lines)
		given, err := overridesOf(header)
		if err != nil {
			checkRefusal(t, err)
			return
		}
		stored := record.AppendAction(nil, &posthaste.BulkAction{Overrides: given})
		again, err := record.DecodeAction("u", "a", stored)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(given, again.Overrides, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("stored they differ:\n%s", diff)
		}
	})
}

// FuzzGroupHeaders checks that defaults that were accepted can be those of any
// publication.
func FuzzGroupHeaders(f *testing.F) {
	f.Add(`{"Upstash-Retries":"3","upstash-header-forward":["true"]}`)
	f.Add(`{"Service-Forward-X":["a","b"],"Upstash-Callback":"https://h"}`)
	f.Add(`{"Upstash-Cron":"* * * * *"}`)
	d := Decoder{CheckHost: allowAll}
	f.Fuzz(func(t *testing.T, text string) {
		var fields map[string]json.RawMessage
		if json.Unmarshal([]byte(text), &fields) != nil {
			return
		}
		header, err := JSONHeader("headers", fields)
		if err == nil {
			err = d.CheckDefaults(header)
		}
		if err != nil {
			checkRefusal(t, err)
			return
		}
		c, err := Controls{}.WithDefaults(header)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		p, err := d.Publication(c, Incoming{})
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		checkSettings(t, p.Settings)
	})
}

// FuzzSchedule checks that any headers are refused or make a schedule that can be
// found and that ticks.
func FuzzSchedule(f *testing.F) {
	f.Add("Upstash-Cron: */5 * * * *\nUpstash-Schedule-Id: s\nUpstash-Queue-Name: q")
	f.Add("Service-Cron: CRON_TZ=Europe/Paris @daily\nUpstash-Not-Before: 1")
	f.Fuzz(func(t *testing.T, lines string) {
		c, err := Collect(parseLines(lines), nil)
		if err != nil {
			return
		}
		var schedule posthaste.Schedule
		if err := ReadSchedule(&schedule, c); err != nil {
			checkRefusal(t, err)
			return
		}
		if schedule.Cron == "" || schedule.Cron != strings.TrimSpace(schedule.Cron) ||
			schedule.ID != "" && posthaste.CheckNewName("id", schedule.ID) != nil ||
			schedule.Queue != "" && posthaste.CheckNewName("queue", schedule.Queue) != nil {
			t.Fatalf("schedule %+v", schedule)
		}
	})
}
