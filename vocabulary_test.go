package posthaste_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"posthaste"
)

func TestHostAndPath(t *testing.T) {
	for url, want := range map[string][2]string{
		"https://Example.com":               {"example.com", ""},
		"https://example.com:8443/a/b?c=/d": {"example.com:8443", "/a/b"},
		"http://user:pw@h//x/../y#f":        {"h", "//x/../y"},
		"http://[::1]:80?q":                 {"[::1]:80", ""},
		"example.com/a":                     {"", ""},
	} {
		host, path := posthaste.HostAndPath(url)
		if got := [2]string{host, path}; got != want {
			t.Errorf("HostAndPath(%q) = %q, want %q", url, got, want)
		}
	}
}

func TestLane(t *testing.T) {
	m := posthaste.Message{URL: "https://A.example/x"}
	want := posthaste.Lane{Kind: posthaste.LaneHost, Name: "a.example"}
	if got := m.Lane(); got != want {
		t.Errorf("lane = %v, want %v", got, want)
	}
	m.FlowControl.Key = "k"
	want = posthaste.Lane{Kind: posthaste.LaneFlow, Name: "k"}
	if got := m.Lane(); got != want {
		t.Errorf("lane with a flow-control key = %v, want %v", got, want)
	}
	m.Queue = "q"
	want = posthaste.Lane{Kind: posthaste.LaneQueue, Name: "q"}
	if got := m.Lane(); got != want {
		t.Errorf("lane with a queue too = %v, want %v", got, want)
	}
}

func TestSettingsWith(t *testing.T) {
	three, zero := 3, 0
	stored := posthaste.Settings{
		Method:      "PUT",
		Retries:     &three,
		RetryDelay:  "1000",
		Labels:      []string{"a"},
		Header:      http.Header{"X-A": {"1"}, "X-B": {"1"}},
		FlowControl: posthaste.FlowControl{Key: "k", FlowLimit: posthaste.FlowLimit{Parallelism: 2}},
		Dialect:     posthaste.DialectService,
	}
	if diff := cmp.Diff(stored, stored.With(posthaste.Settings{})); diff != "" {
		t.Errorf("with nothing (-want +got):\n%s", diff)
	}
	got := stored.With(posthaste.Settings{
		Retries:     &zero,
		Header:      http.Header{"X-B": {"2"}},
		FlowControl: posthaste.FlowControl{FlowLimit: posthaste.FlowLimit{Rate: 5}},
	})
	want := stored
	want.Retries = &zero
	want.Header = http.Header{"X-A": {"1"}, "X-B": {"2"}}
	want.FlowControl.FlowLimit = posthaste.FlowLimit{Rate: 5}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("with overrides (-want +got):\n%s", diff)
	}
	if stored.Header.Get("X-B") != "1" {
		t.Error("the stored header was changed")
	}
}

func TestRedaction(t *testing.T) {
	header := http.Header{"Authorization": {"secret", "other"}, "X-A": {"1"}}
	const hidden = "REDACTED:2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"
	if got := posthaste.Redacted([]byte("secret")); got != hidden {
		t.Errorf("Redacted = %s, want %s", got, hidden)
	}
	one := posthaste.Redaction{Headers: []string{"Authorization"}}.ShowHeader(header)
	if one["Authorization"][0] != hidden || !strings.HasPrefix(one["Authorization"][1], "REDACTED:") || one.Get("X-A") != "1" {
		t.Errorf("one header redacted: %v", one)
	}
	if all := (posthaste.Redaction{AllHeaders: true}).ShowHeader(header); !strings.HasPrefix(all.Get("X-A"), "REDACTED:") {
		t.Errorf("all headers redacted: %v", all)
	}
	if header.Get("Authorization") != "secret" {
		t.Error("the message's own header was changed")
	}
}

func TestURLGroupUpsert(t *testing.T) {
	group := func() posthaste.URLGroup {
		return posthaste.URLGroup{Name: "g", Endpoints: []posthaste.Endpoint{{Name: "one", URL: "http://1"}, {URL: "http://2"}}}
	}
	for name, c := range map[string]struct {
		endpoint posthaste.Endpoint
		want     []posthaste.Endpoint
	}{
		"new":              {posthaste.Endpoint{URL: "http://3"}, []posthaste.Endpoint{{Name: "one", URL: "http://1"}, {URL: "http://2"}, {URL: "http://3"}}},
		"by name":          {posthaste.Endpoint{Name: "one", URL: "http://9"}, []posthaste.Endpoint{{Name: "one", URL: "http://9"}, {URL: "http://2"}}},
		"by URL, named":    {posthaste.Endpoint{Name: "two", URL: "http://2"}, []posthaste.Endpoint{{Name: "one", URL: "http://1"}, {Name: "two", URL: "http://2"}}},
		"by URL, nameless": {posthaste.Endpoint{URL: "http://1"}, []posthaste.Endpoint{{Name: "one", URL: "http://1"}, {URL: "http://2"}}},
	} {
		t.Run(name, func(t *testing.T) {
			g := group()
			if err := g.Upsert(c.endpoint); err != nil || !slices.Equal(g.Endpoints, c.want) {
				t.Errorf("endpoints %v, %v; want %v", g.Endpoints, err, c.want)
			}
		})
	}
	g := group()
	if err := g.Upsert(posthaste.Endpoint{Name: "one", URL: "http://2"}); posthaste.ErrorCode(err) != posthaste.CodeInvalid {
		t.Errorf("name and URL of two endpoints: %v, want code invalid", err)
	}
	g.Remove(posthaste.Endpoint{Name: "one"})
	g.Remove(posthaste.Endpoint{URL: "http://2"})
	g.Remove(posthaste.Endpoint{URL: "http://nowhere"})
	if len(g.Endpoints) != 0 {
		t.Errorf("endpoints %v are left", g.Endpoints)
	}
}

func TestFlowKeyFollowsItsMessages(t *testing.T) {
	key := posthaste.FlowKey{FlowLimit: posthaste.FlowLimit{Parallelism: 1, Rate: 10, Period: time.Minute}, PinnedRate: true}
	if !key.Follow(posthaste.FlowLimit{Parallelism: 5, Rate: 99}) {
		t.Error("a new parallelism changes nothing")
	}
	if want := (posthaste.FlowLimit{Parallelism: 5, Rate: 10, Period: time.Minute}); key.FlowLimit != want {
		t.Errorf("limits %+v, want %+v: the rate is pinned", key.FlowLimit, want)
	}
	if key.Follow(posthaste.FlowLimit{Parallelism: 5, Rate: 1}) {
		t.Error("the same parallelism and a pinned rate are a change")
	}
}

func TestCheckName(t *testing.T) {
	for _, name := range []string{"a", "A-b_c.9", strings.Repeat("x", posthaste.MaxNameLen)} {
		if err := posthaste.CheckName("queue name", name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{"", "a b", "a/b", "ä", strings.Repeat("x", posthaste.MaxNameLen+1)} {
		if err := posthaste.CheckName("queue name", name); posthaste.ErrorCode(err) != posthaste.CodeInvalid {
			t.Errorf("%q: %v, want code invalid", name, err)
		}
	}
}

func TestCheckNewName(t *testing.T) {
	for _, name := range []string{"a", "...", ".a", "a."} {
		if err := posthaste.CheckNewName("queue name", name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{".", "..", "", "a/b"} {
		if err := posthaste.CheckNewName("queue name", name); posthaste.ErrorCode(err) != posthaste.CodeInvalid {
			t.Errorf("%q: %v, want code invalid", name, err)
		}
	}
}

func TestErrorCode(t *testing.T) {
	inner := posthaste.Errorf(posthaste.CodeLimit, "too much")
	for name, c := range map[string]struct {
		err  error
		want posthaste.Code
	}{
		"none":    {nil, ""},
		"ours":    {inner, posthaste.CodeLimit},
		"wrapped": {fmt.Errorf("publish: %w", inner), posthaste.CodeLimit},
		"foreign": {errors.New("disk"), posthaste.CodeInternal},
	} {
		if got := posthaste.ErrorCode(c.err); got != c.want {
			t.Errorf("%s: code %q, want %q", name, got, c.want)
		}
	}
	with := &posthaste.Error{Code: posthaste.CodeInternal, Message: "cannot store", Err: errors.New("disk")}
	if with.Error() != "cannot store: disk" || !errors.Is(with, with.Err) {
		t.Errorf("error %q does not carry its cause", with)
	}
}

func TestStates(t *testing.T) {
	for text, want := range map[string]posthaste.State{"created": "CREATED", "CANCELED": "CANCELLED", "Cancel_Requested": "CANCEL_REQUESTED"} {
		if got, ok := posthaste.ParseState(text); !ok || got != want {
			t.Errorf("ParseState(%q) = %s, %v, want %s", text, got, ok, want)
		}
	}
	if got, ok := posthaste.ParseState("PENDING"); ok {
		t.Errorf("PENDING is read as %s", got)
	}
}
