package wire

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"posthaste"
)

// The two families of control headers, with the same meaning.
const (
	UpstashPrefix = "Upstash-"
	ServicePrefix = "Service-"
)

// Controls of a publication without prefix. Callback and Failure-Callback are also prefixes of
// settings.
const (
	controlCallback         = "Callback"
	controlContentDedup     = "Content-Based-Deduplication"
	controlCron             = "Cron"
	controlDeduplicationID  = "Deduplication-Id"
	controlDelay            = "Delay"
	controlFailureCallback  = "Failure-Callback"
	controlFlowControlKey   = "Flow-Control-Key"
	controlFlowControlValue = "Flow-Control-Value"
	controlHeaderForward    = "Header-Forward"
	controlLabel            = "Label"
	controlMethod           = "Method"
	controlNotBefore        = "Not-Before"
	controlQueueName        = "Queue-Name"
	controlRedactFields     = "Redact-Fields"
	controlRetries          = "Retries"
	controlRetryDelay       = "Retry-Delay"
	controlScheduleID       = "Schedule-Id"
	controlTimeout          = "Timeout"

	ForwardPrefix = "Forward-"
)

var controlNames = map[string]bool{
	controlCallback: true, controlContentDedup: true, controlCron: true, controlDeduplicationID: true,
	controlDelay: true, controlFailureCallback: true, controlFeatureSet: true, controlFlowControlKey: true,
	controlFlowControlValue: true, controlHeaderForward: true, controlLabel: true, controlMethod: true,
	controlNotBefore: true, controlQueueName: true, controlRedactFields: true, controlRetries: true,
	controlRetryDelay: true, controlScheduleID: true, controlTimeout: true,
}

// isKnown reports whether a suffix names a control or one of a callback. SDKs define what follows
// workflowPrefix.
func isKnown(suffix string) bool {
	for _, family := range []string{controlFailureCallback + "-", controlCallback + "-"} {
		if nested, of := strings.CutPrefix(suffix, family); of {
			return isKnown(nested)
		}
	}
	return strings.HasPrefix(suffix, ForwardPrefix) || strings.HasPrefix(suffix, workflowPrefix) || controlNames[suffix]
}

// isControl reports whether a suffix names or belongs to a control.
func isControl(suffix string) bool {
	for _, prefix := range []string{ForwardPrefix, controlCallback + "-", controlFailureCallback + "-", workflowPrefix} {
		if strings.HasPrefix(suffix, prefix) {
			return true
		}
	}
	return controlNames[suffix]
}

// isIgnored reports whether a control header says nothing: what SDKs send about themselves, and
// what deliveries have, in case a destination publishes with received headers. It does not
// determine the dialect.
func isIgnored(suffix string) bool {
	switch suffix {
	case "Caller-Ip", "Endpoint-Name", "Max-Retries", "Message-Id", "Region", "Retried", "Signature", "Topic-Name":
		return true
	}
	return strings.HasPrefix(suffix, "Telemetry-")
}

// Controls are the control values of a publication from headers, query or JSON.
type Controls struct {
	values  map[string]control
	dialect posthaste.Dialect
	unknown []string // full names without effect, unordered
}

type control struct {
	name   string // full, canonical
	values []string
}

// Cron returns name and value of the control that makes a schedule, if it is given.
func (c Controls) Cron() (name, expression string, given bool) {
	cron, given := c.values[controlCron]
	return cron.name, cron.text(), given
}

// Each calls visit with each control, without its prefix, and its value.
func (c Controls) Each(visit func(suffix, text string)) {
	for suffix, given := range c.values {
		visit(suffix, given.text())
	}
}

// text returns the value. Several lines are joined with commas, as in HTTP, so contradictions
// fail to parse.
func (c control) text() string {
	if len(c.values) == 1 {
		return strings.TrimSpace(posthaste.DecodeHeaderText(c.values[0]))
	}
	return strings.TrimSpace(posthaste.DecodeHeaderText(strings.Join(c.values, ", ")))
}

// Collect returns the controls of headers and query. A header overrides the query, and
// Service- overrides Upstash-. An invalid name or value is an Error with CodeInvalid.
func Collect(header http.Header, query []Parameter) (Controls, error) {
	c := Controls{values: make(map[string]control)}
	asHeader, err := parametersAsHeader(query)
	if err != nil {
		return Controls{}, err
	}
	var used [2]bool
	for _, carrier := range []http.Header{asHeader, header} { // later ones override
		for i, prefix := range []string{UpstashPrefix, ServicePrefix} {
			found, err := c.add(carrier, prefix)
			if err != nil {
				return Controls{}, err
			}
			used[i] = used[i] || found
		}
	}
	c.dialect = dialectOf(used[0], used[1])
	return c, nil
}

// parametersAsHeader returns reserved parameters as headers.
func parametersAsHeader(query []Parameter) (http.Header, error) {
	header := make(http.Header, len(query))
	for _, p := range query {
		if p.Name == TokenParameter {
			continue
		}
		if !posthaste.IsHeaderName(p.Name) {
			return nil, posthaste.Invalidf("query parameter %.100q is not the name of a header", p.Name)
		}
		header.Add(p.Name, posthaste.EncodeHeaderText(p.Value))
	}
	return header, nil
}

// add adds the headers of a family and reports whether there were any.
func (c *Controls) add(header http.Header, prefix string) (found bool, err error) {
	for name, values := range header {
		suffix, ok := strings.CutPrefix(name, prefix)
		if !ok || isIgnored(suffix) {
			continue
		}
		for _, value := range values {
			if !posthaste.IsHeaderValue(value) {
				return false, posthaste.Invalidf("the value of %s has a line break or another control character, "+
					"which headers cannot carry", name)
			}
		}
		if !isKnown(suffix) {
			c.unknown = append(c.unknown, name)
		}
		c.values[suffix] = control{name, values}
		found = true
	}
	return found, nil
}

// CheckKnown returns an error for an unknown setting, which may be misspelt. It returns other
// unknown names, which only cause a warning: SDKs send anything for callbacks, and applications
// may use Service- for their own headers (contract, decision 16).
func (c Controls) CheckKnown() (odd []string, err error) {
	for _, name := range slices.Sorted(slices.Values(c.unknown)) {
		if suffix, ours := strings.CutPrefix(name, UpstashPrefix); ours && !isControl(suffix) {
			return nil, posthaste.Invalidf("%.100s is not known: what follows %s is one of %s", name, UpstashPrefix, settingNames)
		}
		odd = append(odd, name)
	}
	return odd, nil
}

// settingNames lists the settings for errors.
var settingNames = func() string {
	names := slices.Sorted(maps.Keys(controlNames))
	names = slices.DeleteFunc(names, func(name string) bool { return name == controlFeatureSet }) // only for SDKs
	return strings.Join(names, ", ") + ", Forward-NAME, Callback-SETTING and Failure-Callback-SETTING"
}()

func dialectOf(upstash, service bool) posthaste.Dialect {
	switch {
	case upstash == service:
		return posthaste.DialectBoth
	case upstash:
		return posthaste.DialectUpstash
	default:
		return posthaste.DialectService
	}
}

// WithDefaults adds missing controls from default headers, which do not affect the dialect.
func (c Controls) WithDefaults(header http.Header) (Controls, error) {
	defaults, err := Collect(header, nil)
	if err != nil {
		return Controls{}, err
	}
	maps.Copy(defaults.values, c.values)
	return Controls{values: defaults.values, dialect: c.dialect}, nil
}

// under returns the controls with a prefix, without it.
func (c Controls) under(prefix string) Controls {
	nested := Controls{dialect: c.dialect}
	for suffix, given := range c.values {
		rest, ok := strings.CutPrefix(suffix, prefix)
		if !ok {
			continue
		}
		if nested.values == nil {
			nested.values = make(map[string]control)
		}
		nested.values[rest] = given
	}
	return nested
}
