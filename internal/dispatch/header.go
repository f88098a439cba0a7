package dispatch

import (
	"net/http"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"

	"posthaste"
)

// control is a header about the delivery itself.
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

// suffixes are the control headers' canonical names without prefix.
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

// yields reports whether a forwarded header of the same name takes precedence.
func (c control) yields() bool {
	return c == controlEndpointName || c == controlQueueName || c == controlLabel
}

// names are the full names in one family.
type names [controlCount]string

// families has the names by prefix.
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

// header returns the headers of a delivery, or an Error with CodeInvalid. It shares values with
// the message.
func (d *Dispatcher) header(m *posthaste.Message, user *url.Userinfo, retried int, signature string) (http.Header, error) {
	prefixes := m.Dialect.Prefixes()
	own := d.controls(m, retried, signature)
	// exact size: up to eight headers fit the smallest map
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

// forward copies forwardable headers under canonical names; "transfer-encoding" would be sent as
// it is.
func forward(header, forwarded http.Header) {
	for name, values := range forwarded {
		name = textproto.CanonicalMIMEHeaderKey(name)
		if !posthaste.IsConnectionHeader(name) {
			header[name] = values
		}
	}
}

// addTrace sets Traceparent, unless the publisher has.
func addTrace(header http.Header, trace posthaste.TraceContext) {
	const name = "Traceparent"
	if _, taken := header[name]; !taken && trace != "" {
		header[name] = []string{string(trace)}
	}
}

// controls are the control headers' values; empty ones are not sent.
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

// len returns the number of control headers in one family.
func (own *controls) len() int {
	n := 0
	for _, value := range own {
		if value != "" {
			n++
		}
	}
	return n
}

// addTo sets the control headers in the publisher's families. Except for those that yield, they
// replace forwarded ones.
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

// agent returns the User-Agent; receivers for the Upstash family may check its name.
func (d *Dispatcher) agent(dialect posthaste.Dialect) string {
	if dialect == posthaste.DialectService {
		return d.userAgent
	}
	return "Upstash-QStash"
}

// addAuthorization sends user and password of the URL, unless the publisher forwards the header.
func addAuthorization(header http.Header, user *url.Userinfo) {
	if _, taken := header["Authorization"]; taken || user == nil {
		return
	}
	password, _ := user.Password()
	req := http.Request{Header: header}
	req.SetBasicAuth(user.Username(), password)
}

// checkHeader returns an Error for a name or value that HTTP does not allow. It omits the value,
// which may be secret.
func checkHeader(header http.Header) error {
	for name, values := range header {
		if !posthaste.IsHeaderName(name) {
			return posthaste.Invalidf("header name %q has characters that HTTP does not allow", name)
		}
		for _, value := range values {
			if !posthaste.IsHeaderValue(value) {
				return posthaste.Invalidf("the value of header %s has control characters, which HTTP does not allow", name)
			}
		}
	}
	return nil
}
