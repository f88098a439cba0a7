package dispatch

import (
	"net/http"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"

	"posthaste"
)

// control is one of the headers that a delivery carries about itself.
type control int

const (
	controlMessageID control = iota
	controlRetried
	controlSignature
	controlScheduleID
	controlTopicName
	controlCallerIP
	controlRegion
	controlEndpointName
	controlQueueName
	controlLabel
	controlCount
)

// suffixes are the canonical names of the control headers after their prefix.
var suffixes = [controlCount]string{
	controlMessageID:    "Message-Id",
	controlRetried:      "Retried",
	controlSignature:    "Signature",
	controlScheduleID:   "Schedule-Id",
	controlTopicName:    "Topic-Name",
	controlCallerIP:     "Caller-Ip",
	controlRegion:       "Region",
	controlEndpointName: "Endpoint-Name",
	controlQueueName:    "Queue-Name",
	controlLabel:        "Label",
}

// yields reports whether a forwarded header of the same name wins. These three
// are extras that a publisher may have used for something else.
func (c control) yields() bool {
	return c == controlEndpointName || c == controlQueueName || c == controlLabel
}

// names are the full names of the control headers in one family.
type names [controlCount]string

// families holds the names by prefix, so that no attempt has to build them.
var families = func() map[string]*names {
	families := make(map[string]*names)
	for _, prefix := range posthaste.DialectBoth.Prefixes() {
		var full names
		for c, suffix := range suffixes {
			full[c] = prefix + suffix
		}
		families[prefix] = &full
	}
	return families
}()

// notForwarded are the headers that belong to one connection or to the framing
// of one request, and so are never taken over from another.
var notForwarded = map[string]bool{
	"Connection":          true,
	"Content-Length":      true,
	"Expect":              true,
	"Host":                true,
	"Http2-Settings":      true,
	"Keep-Alive":          true,
	"Proxy-Authenticate":  true,
	"Proxy-Authorization": true,
	"Proxy-Connection":    true,
	"Te":                  true,
	"Trailer":             true,
	"Transfer-Encoding":   true,
	"Upgrade":             true,
}

// header returns the headers of a delivery, or an Error with CodeInvalid when
// one of them cannot be sent. The values of forwarded headers are shared with
// the message.
func (d *Dispatcher) header(m *posthaste.Message, user *url.Userinfo, retried int, signature string) (http.Header, error) {
	prefixes := m.Dialect.Prefixes()
	own := d.controls(m, retried, signature)
	// The exact size matters: up to eight headers fit the smallest map.
	header := make(http.Header, len(m.Header)+len(prefixes)*own.len()+1)
	forward(header, m.Header)
	own.addTo(header, prefixes)
	if _, taken := header["User-Agent"]; !taken {
		header["User-Agent"] = []string{d.agent(m.Dialect)}
	}
	addTrace(header, d.options.Trace(m, retried))
	addAuthorization(header, user)
	return header, checkHeader(header)
}

// forward copies what may be forwarded. Names are made canonical once more: a
// stray lower-case "transfer-encoding" would reach the wire as it is.
func forward(header, forwarded http.Header) {
	for name, values := range forwarded {
		name = textproto.CanonicalMIMEHeaderKey(name)
		if !notForwarded[name] {
			header[name] = values
		}
	}
}

// addTrace tells the destination where it is in a trace, unless the publisher does.
func addTrace(header http.Header, trace posthaste.TraceContext) {
	const name = "Traceparent"
	if _, taken := header[name]; !taken && trace != "" {
		header[name] = []string{string(trace)}
	}
}

// controls are the values of the control headers; an empty one is not sent.
type controls [controlCount]string

func (d *Dispatcher) controls(m *posthaste.Message, retried int, signature string) *controls {
	return &controls{
		controlMessageID:    m.ID.String(),
		controlRetried:      strconv.Itoa(retried),
		controlSignature:    signature,
		controlScheduleID:   m.ScheduleID,
		controlTopicName:    m.URLGroup,
		controlCallerIP:     m.CallerIP,
		controlRegion:       d.options.Region,
		controlEndpointName: posthaste.EncodeHeaderText(m.Endpoint),
		controlQueueName:    m.Queue,
		controlLabel:        posthaste.EncodeHeaderText(strings.Join(m.Labels, ",")),
	}
}

// len returns how many control headers there are in one family.
func (own *controls) len() int {
	n := 0
	for _, value := range own {
		if value != "" {
			n++
		}
	}
	return n
}

// addTo sets the control headers in each family the publisher uses. They win
// over forwarded ones, except for those that yield.
func (own *controls) addTo(header http.Header, prefixes []string) {
	for c := range controlCount {
		if own[c] == "" {
			continue
		}
		for _, prefix := range prefixes {
			name := families[prefix][c]
			if _, taken := header[name]; taken && c.yields() {
				continue
			}
			header[name] = own[c : c+1 : c+1]
		}
	}
}

// agent returns the User-Agent: receivers that were written for the Upstash
// family may look for its name.
func (d *Dispatcher) agent(dialect posthaste.Dialect) string {
	if dialect == posthaste.DialectService {
		return d.userAgent
	}
	return "Upstash-QStash"
}

// addAuthorization turns the user and password of a URL into a header, unless
// the publisher forwards one.
func addAuthorization(header http.Header, user *url.Userinfo) {
	if _, taken := header["Authorization"]; taken || user == nil {
		return
	}
	password, _ := user.Password()
	req := http.Request{Header: header}
	req.SetBasicAuth(user.Username(), password)
}

// checkHeader returns an Error for a name or value that HTTP cannot carry. The
// value is left out of the sentence, for it may be a secret.
func checkHeader(header http.Header) error {
	for name, values := range header {
		if !validName(name) {
			return posthaste.Invalidf("header name %q has characters that HTTP does not allow", name)
		}
		for _, value := range values {
			if !validValue(value) {
				return posthaste.Invalidf("the value of header %s has control characters, which HTTP does not allow", name)
			}
		}
	}
	return nil
}

func validName(name string) bool {
	for i := range len(name) {
		if !tokenByte[name[i]] {
			return false
		}
	}
	return name != ""
}

func validValue(value string) bool {
	for i := range len(value) {
		if c := value[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// tokenByte tells which bytes may stand in a header name (RFC 9110, 5.6.2).
var tokenByte = func() (allowed [256]bool) {
	const token = "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	for i := range len(token) {
		allowed[token[i]] = true
	}
	return allowed
}()
