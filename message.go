package posthaste

import (
	"cmp"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Message is the envelope of one accepted delivery. It never changes after it
// was accepted; its events say what happens to it.
type Message struct {
	ID        MessageID
	User      string    // the owner; ids of other users do not exist for it
	URL       string    // the destination, byte for byte as it was given
	Body      []byte    // delivered unchanged
	CreatedAt time.Time // to the millisecond
	NotBefore time.Time // first attempt not before this time; CreatedAt without a delay
	CallerIP  string    // address of the publisher, without port

	Queue      string // the queue it waits in, if any
	URLGroup   string // the URL group it was sent through, if any
	Endpoint   string // the name of the endpoint within that group
	ScheduleID string // the schedule that made it, if any

	// SourceID is the message whose callback this one is. A source that holds a
	// slot of a queue keeps it until its callbacks have ended.
	SourceID MessageID

	Run *RunLink // the workflow run it belongs to, if any

	Settings
}

// Settings are the choices a publisher makes for a delivery. The zero value of
// a field means that it was not given.
type Settings struct {
	Method          string      // upper case; see Verb for the default
	Header          http.Header // forwarded to the destination, Content-Type included
	Retries         *int        // attempts after the first; see MaxRetries for the default
	RetryDelay      string      // an expression in milliseconds, as it was given
	Timeout         time.Duration
	Labels          []string
	FlowControl     FlowControl
	Callback        *Callback // receives every attempt
	FailureCallback *Callback // receives the last attempt of a message that failed
	Redact          Redaction
	Dialect         Dialect

	// Trace is what the attempts are part of: where the publisher said it is, or the
	// span of the publication within that. What follows from a delivery inherits it.
	Trace TraceContext
}

// DefaultRetries is the number of retries of a message that names none.
const DefaultRetries = 3

// MaxRetries returns how many attempts may follow the first.
func (s Settings) MaxRetries() int {
	if s.Retries == nil {
		return DefaultRetries
	}
	return *s.Retries
}

// Verb returns the HTTP method of the delivery, POST unless another was given.
func (s Settings) Verb() string {
	if s.Method == "" {
		return http.MethodPost
	}
	return s.Method
}

// With returns the settings with those of o that were given in their place.
// Headers are replaced one by one, and so are the two halves of flow control, its
// key and its limits. The dialect stays.
func (s Settings) With(o Settings) Settings {
	s.Method = cmp.Or(o.Method, s.Method)
	s.RetryDelay = cmp.Or(o.RetryDelay, s.RetryDelay)
	s.Timeout = cmp.Or(o.Timeout, s.Timeout)
	s.Retries = cmp.Or(o.Retries, s.Retries)
	s.Callback = cmp.Or(o.Callback, s.Callback)
	s.FailureCallback = cmp.Or(o.FailureCallback, s.FailureCallback)
	s.Trace = cmp.Or(o.Trace, s.Trace)
	s.FlowControl.Key = cmp.Or(o.FlowControl.Key, s.FlowControl.Key)
	s.FlowControl.FlowLimit = cmp.Or(o.FlowControl.FlowLimit, s.FlowControl.FlowLimit)
	if len(o.Labels) > 0 {
		s.Labels = o.Labels
	}
	if !o.Redact.IsZero() {
		s.Redact = o.Redact
	}
	if len(o.Header) > 0 {
		s.Header = s.Header.Clone()
		if s.Header == nil {
			s.Header = http.Header{}
		}
		maps.Copy(s.Header, o.Header)
	}
	return s
}

// Callback is a message to be made when something happens to another one.
type Callback struct {
	URL      string
	Delay    time.Duration
	Settings Settings
	// Given holds the family's headers as the publisher wrote them, for display:
	// forwarded ones under their own names, settings under their full names.
	Given http.Header
}

// FlowControl names a flow-control key and what it allows.
type FlowControl struct {
	Key string
	FlowLimit
}

// FlowLimit bounds how many deliveries may run and start. Zero means no bound.
type FlowLimit struct {
	Parallelism int           // attempts in flight
	Rate        int           // attempts started per Period
	Period      time.Duration // length of the window; DefaultFlowPeriod if not given
}

// DefaultFlowPeriod is the window of a rate that names none.
const DefaultFlowPeriod = time.Second

// Dialect is the family of header names a publisher used. Deliveries, callbacks
// and follow-up messages speak the same family.
type Dialect uint8

// The dialects. A publisher that used neither family, or both, gets both.
const (
	DialectBoth Dialect = iota
	DialectUpstash
	DialectService
)

// Prefixes returns the header prefixes of the dialect.
func (d Dialect) Prefixes() []string {
	switch d {
	case DialectUpstash:
		return []string{"Upstash-"}
	case DialectService:
		return []string{"Service-"}
	default:
		return []string{"Upstash-", "Service-"}
	}
}

// LaneKind says what a lane is named after.
type LaneKind byte

// The kinds of lanes.
const (
	LaneHost  LaneKind = 'h'
	LaneFlow  LaneKind = 'f'
	LaneQueue LaneKind = 'q'
)

// Lane is where a message waits: in exactly one of its queue, its flow-control
// key, or else its destination's host. Messages in different lanes never wait
// for one another.
type Lane struct {
	Kind LaneKind
	Name string
}

// Lane returns the lane the message waits in.
func (m *Message) Lane() Lane {
	switch {
	case m.Queue != "":
		return Lane{LaneQueue, m.Queue}
	case m.FlowControl.Key != "":
		return Lane{LaneFlow, m.FlowControl.Key}
	default:
		host, _ := HostAndPath(m.URL)
		return Lane{LaneHost, host}
	}
}

// HostAndPath returns the lower-case host, with its port if it has one, and the
// path, without the query, of a destination. Both are empty for a text that is
// no absolute URL.
func HostAndPath(rawURL string) (host, path string) {
	_, rest, ok := strings.Cut(rawURL, "://")
	if !ok {
		return "", ""
	}
	if cut := strings.IndexAny(rest, "?#"); cut >= 0 {
		rest = rest[:cut]
	}
	authority := rest
	if slash := strings.IndexByte(rest, '/'); slash >= 0 {
		authority, path = rest[:slash], rest[slash:]
	}
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		authority = authority[at+1:]
	}
	return strings.ToLower(authority), path
}

// HostWithoutPort removes the port of a host, keeping brackets of an IPv6 address.
func HostWithoutPort(host string) string {
	colon := strings.LastIndexByte(host, ':')
	if colon < 0 || strings.HasSuffix(host, "]") {
		return host
	}
	return host[:colon]
}

// ParseURL returns an Error with CodeInvalid unless the text is an absolute
// http or https URL with a host, both within their bounds. shown is the text as errors have it.
func ParseURL(what, text, shown string) (*url.URL, error) {
	if err := CheckLen(what, shown, MaxURLLen); err != nil {
		return nil, err
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, Invalidf("%s %q is not a URL", what, clip(shown))
	case !strings.EqualFold(u.Scheme, "http") && !strings.EqualFold(u.Scheme, "https"):
		return nil, Invalidf("invalid %s url: endpoint has invalid scheme, add http:// or https:// to %q", what, clip(shown))
	case u.Hostname() == "":
		return nil, Invalidf("%s %q has no host", what, clip(shown))
	case !isPort(u.Port()):
		return nil, Invalidf("%s %q has the port %s, 1 to 65535 are accepted", what, clip(shown), u.Port())
	}
	return u, CheckLen("the host of "+what, u.Hostname(), MaxHostLen)
}

// isPort reports whether the digits, or none of them, are a port to connect to.
func isPort(digits string) bool {
	port, err := strconv.ParseUint(digits, 10, 16)
	return digits == "" || err == nil && port > 0
}

// clip keeps a quoted value of an error message readable.
func clip(s string) string {
	const limit = 200
	if len(s) > limit {
		return s[:limit] + "…"
	}
	return s
}
