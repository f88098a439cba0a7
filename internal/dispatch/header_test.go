package dispatch

import (
	"bufio"
	"bytes"
	"net/http"
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"

	"posthaste"
)

// Contract, messages 3 and U-49.
func TestForwardedHeaders(t *testing.T) {
	tests := []struct {
		name    string
		forward http.Header
		change  func(*posthaste.Message)
		want    http.Header // names to look at, nil for one that must be absent
	}{
		{
			name:    "values are kept",
			forward: http.Header{"X-A": {"1", "2"}, "Accept-Encoding": {"br"}},
			want:    http.Header{"X-A": {"1", "2"}, "Accept-Encoding": {"br"}},
		},
		{
			name:    "no content type of its own",
			forward: nil,
			want:    http.Header{"Content-Type": nil, "Accept-Encoding": nil, "Upstash-Schedule-Id": nil, "Upstash-Caller-Ip": nil},
		},
		{
			name: "what belongs to one connection stays behind",
			forward: http.Header{
				"Connection": {"close"}, "Content-Length": {"9"}, "Expect": {"100-continue"}, "Host": {"other"},
				"Http2-Settings": {"x"}, "Keep-Alive": {"1"}, "Proxy-Authenticate": {"x"}, "Proxy-Authorization": {"x"},
				"Proxy-Connection": {"x"}, "Te": {"trailers"}, "Trailer": {"X"}, "Transfer-Encoding": {"chunked"},
				"Upgrade": {"h2c"}, "transfer-encoding": {"chunked"},
			},
			want: http.Header{
				"Connection": nil, "Content-Length": nil, "Expect": nil, "Host": nil,
				"Http2-Settings": nil, "Keep-Alive": nil, "Proxy-Authenticate": nil, "Proxy-Authorization": nil,
				"Proxy-Connection": nil, "Te": nil, "Trailer": nil, "Transfer-Encoding": nil,
				"Upgrade": nil, "transfer-encoding": nil,
			},
		},
		{
			name: "control headers are ours",
			forward: http.Header{
				"Upstash-Message-Id": {"forged"}, "Upstash-Retried": {"forged"}, "Upstash-Signature": {"forged"},
				"Upstash-Region": {"forged"},
			},
			want: http.Header{
				"Upstash-Message-Id": {"msg_1111111111111111111112"}, "Upstash-Retried": {"3"}, "Upstash-Signature": {"sig"},
				"Upstash-Region": {"EU-CENTRAL-1"},
			},
		},
		{
			name:   "the place in a trace is complete",
			change: func(m *posthaste.Message) { m.Trace = "00-a-b-01" },
			want:   http.Header{"Traceparent": {"00-a-b-01"}},
		},
		{
			name:    "unless the publisher tells it",
			forward: http.Header{"Traceparent": {"theirs"}},
			change:  func(m *posthaste.Message) { m.Trace = "00-a-b-01" },
			want:    http.Header{"Traceparent": {"theirs"}},
		},
		{
			name: "and there may be none",
			want: http.Header{"Traceparent": nil},
		},
		{
			name:    "extras yield",
			forward: http.Header{"Upstash-Label": {"theirs"}, "Upstash-Endpoint-Name": {"theirs"}, "Upstash-Queue-Name": {"theirs"}},
			change: func(m *posthaste.Message) {
				m.Labels, m.Endpoint, m.Queue = []string{"ours"}, "ours", "ours"
			},
			want: http.Header{"Upstash-Label": {"theirs"}, "Upstash-Endpoint-Name": {"theirs"}, "Upstash-Queue-Name": {"theirs"}},
		},
		{
			name:   "texts outside ASCII go as fetch sends them",
			change: func(m *posthaste.Message) { m.Labels, m.Endpoint = []string{"José", "ÿ"}, "größe" },
			want:   http.Header{"Upstash-Label": {"Jos\xe9,\xff"}, "Upstash-Endpoint-Name": {"gr\xf6\xdfe"}},
		},
		{
			name:   "and those that fetch refuses in UTF-8",
			change: func(m *posthaste.Message) { m.Labels, m.Endpoint = []string{"José", "患者"}, "ā" },
			want:   http.Header{"Upstash-Label": {"José,患者"}, "Upstash-Endpoint-Name": {"ā"}},
		},
		{
			name:    "extras yield in their own family only",
			forward: http.Header{"Upstash-Label": {"theirs"}},
			change: func(m *posthaste.Message) {
				m.Labels, m.Dialect = []string{"ours"}, posthaste.DialectBoth
			},
			want: http.Header{"Upstash-Label": {"theirs"}, "Service-Label": {"ours"}},
		},
		{
			name:    "the other family is not ours",
			forward: http.Header{"Service-Message-Id": {"theirs"}, "Upstash-Workflow-Runid": {"wfr_1"}},
			want:    http.Header{"Service-Message-Id": {"theirs"}, "Upstash-Workflow-Runid": {"wfr_1"}},
		},
		{
			name:    "user agent yields",
			forward: http.Header{"User-Agent": {"theirs"}},
			want:    http.Header{"User-Agent": {"theirs"}},
		},
	}
	d := newTestDispatcher(t)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m := newMessage("http://example.com")
			m.Header = test.forward
			if test.change != nil {
				test.change(m)
			}
			header, err := d.header(m, nil, 3, "sig")
			if err != nil {
				t.Fatal(err)
			}
			for name, want := range test.want {
				if diff := cmp.Diff(want, header[name]); diff != "" {
					t.Errorf("%s (-want +got):\n%s", name, diff)
				}
			}
		})
	}
}

func TestAuthorizationFromURL(t *testing.T) {
	tests := []struct {
		name    string
		user    *url.Userinfo
		forward http.Header
		want    string
	}{
		{"none", nil, nil, ""},
		{"user and password", url.UserPassword("ann", "secret"), nil, "Basic YW5uOnNlY3JldA=="},
		{"user alone", url.User("ann"), nil, "Basic YW5uOg=="},
		{"forwarded wins", url.User("ann"), http.Header{"Authorization": {"Bearer x"}}, "Bearer x"},
	}
	d := newTestDispatcher(t)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m := newMessage("http://example.com")
			m.Header = test.forward
			header, err := d.header(m, test.user, 0, "sig")
			if err != nil {
				t.Fatal(err)
			}
			if got := header.Get("Authorization"); got != test.want {
				t.Errorf("Authorization %q, want %q", got, test.want)
			}
		})
	}
}

func TestHeaderLeavesTheMessageAlone(t *testing.T) {
	m := newMessage("http://example.com")
	m.Header = http.Header{"Upstash-Signature": {"forged"}, "X-A": {"1"}}
	before := m.Header.Clone()
	if _, err := newTestDispatcher(t).header(m, nil, 0, "sig"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, m.Header); diff != "" {
		t.Errorf("message header changed (-before +after):\n%s", diff)
	}
}

// FuzzForward checks that a forwarded header either is refused or arrives as
// one header of that name and nothing else.
func FuzzForward(f *testing.F) {
	f.Add("X-A", "1")
	f.Add("x", "a\r\nInjected: yes")
	f.Add("X: y\r\nZ", "1")
	f.Add("transfer-encoding", "chunked")
	f.Add("content-length", "0")
	d := newTestDispatcher(f)
	f.Fuzz(func(t *testing.T, name, value string) {
		m := newMessage("http://example.com/")
		plain := readBack(t, d, m)
		m.Header = http.Header{name: {value}}
		if _, err := d.header(m, nil, 0, "s"); err != nil {
			return
		}
		got := readBack(t, d, m)
		delete(got, http.CanonicalHeaderKey(name))
		delete(plain, http.CanonicalHeaderKey(name))
		if diff := cmp.Diff(plain, got); diff != "" {
			t.Errorf("forwarding %q: %q changed other headers (-without +with):\n%s", name, value, diff)
		}
	})
}

// readBack writes a request and returns the headers a server reads from it.
func readBack(t *testing.T, d *Dispatcher, m *posthaste.Message) http.Header {
	dest, err := d.destination(m.URL)
	if err != nil {
		t.Fatal(err)
	}
	req, err := d.request(t.Context(), m, dest, 0, "s")
	if err != nil {
		t.Fatal(err)
	}
	var wire bytes.Buffer
	if err := req.Write(&wire); err != nil {
		t.Fatal(err)
	}
	got, err := http.ReadRequest(bufio.NewReader(&wire))
	if err != nil {
		t.Fatal(err)
	}
	if body := wireBody(t, got); body != string(m.Body) {
		t.Errorf("body %q, want %q", body, m.Body)
	}
	return got.Header
}

func wireBody(t *testing.T, req *http.Request) string {
	var body bytes.Buffer
	if _, err := body.ReadFrom(req.Body); err != nil {
		t.Fatal(err)
	}
	return body.String()
}
