package api

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"posthaste"
)

// The two families of control headers. Both mean the same.
const (
	upstashPrefix = "Upstash-"
	servicePrefix = "Service-"
)

// The controls of a publication, by what follows the prefix of their family.
// Callback and Failure-Callback are also prefixes of settings of their own.
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

	forwardPrefix = "Forward-"
)

var controlNames = map[string]bool{
	controlCallback: true, controlContentDedup: true, controlCron: true, controlDeduplicationID: true,
	controlDelay: true, controlFailureCallback: true, controlFeatureSet: true, controlFlowControlKey: true,
	controlFlowControlValue: true, controlHeaderForward: true, controlLabel: true, controlMethod: true,
	controlNotBefore: true, controlQueueName: true, controlRedactFields: true, controlRetries: true,
	controlRetryDelay: true, controlScheduleID: true, controlTimeout: true,
}

// isKnown reports whether a suffix names a control, or one of a callback. What belongs to
// the protocol of runs is for SDKs to say.
func isKnown(suffix string) bool {
	for _, family := range []string{controlFailureCallback + "-", controlCallback + "-"} {
		if nested, of := strings.CutPrefix(suffix, family); of {
			return isKnown(nested)
		}
	}
	return strings.HasPrefix(suffix, forwardPrefix) || strings.HasPrefix(suffix, workflowPrefix) || controlNames[suffix]
}

// isControl reports whether a suffix names a control, or belongs to one.
func isControl(suffix string) bool {
	for _, prefix := range []string{forwardPrefix, controlCallback + "-", controlFailureCallback + "-", workflowPrefix} {
		if strings.HasPrefix(suffix, prefix) {
			return true
		}
	}
	return controlNames[suffix]
}

// isIgnored reports whether a control header is one that carries no wish: what
// SDKs tell of themselves, and what deliveries carry, in case a destination
// publishes with the headers it received. Such a header does not make its
// family the publisher's dialect either.
func isIgnored(suffix string) bool {
	switch suffix {
	case "Caller-Ip", "Endpoint-Name", "Max-Retries", "Message-Id", "Region", "Retried", "Signature", "Topic-Name":
		return true
	}
	return strings.HasPrefix(suffix, "Telemetry-")
}

// controls are the control values of one publication by suffix, whatever
// carried them: headers of a request, its query, headers within a JSON body.
type controls struct {
	values  map[string]control // by canonical suffix
	dialect posthaste.Dialect
	unknown []string // names of no effect, in full, in any order
}

// control is a control that was given.
type control struct {
	name   string   // in full, canonical
	values []string // as on the wire
}

// text returns the value of a control that has one. Several lines are one value
// with commas, as HTTP has it, so that a contradiction fails to parse.
func (c control) text() string {
	if len(c.values) == 1 {
		return strings.TrimSpace(posthaste.DecodeHeaderText(c.values[0]))
	}
	return strings.TrimSpace(posthaste.DecodeHeaderText(strings.Join(c.values, ", ")))
}

// collectControls finds the control values among headers and query parameters.
// Where a value is given more than once, a header wins over the query and then
// the Service family over the other. A name that is no header name, or a value
// that could not be one, is an Error with CodeInvalid.
func collectControls(header http.Header, query []parameter) (controls, error) {
	c := controls{values: make(map[string]control)}
	asHeader, err := parametersAsHeader(query)
	if err != nil {
		return controls{}, err
	}
	var used [2]bool
	for _, carrier := range []http.Header{asHeader, header} { // later ones win
		for i, prefix := range []string{upstashPrefix, servicePrefix} {
			found, err := c.add(carrier, prefix)
			if err != nil {
				return controls{}, err
			}
			used[i] = used[i] || found
		}
	}
	c.dialect = dialectOf(used[0], used[1])
	return c, nil
}

// parametersAsHeader gives reserved query parameters the form of headers.
func parametersAsHeader(query []parameter) (http.Header, error) {
	header := make(http.Header, len(query))
	for _, p := range query {
		if p.name == tokenParameter {
			continue
		}
		if !posthaste.IsHeaderName(p.name) {
			return nil, posthaste.Invalidf("query parameter %.100q is not the name of a header", p.name)
		}
		header.Add(p.name, posthaste.EncodeHeaderText(p.value))
	}
	return header, nil
}

// add takes over the headers of a family and reports whether there were any.
func (c *controls) add(header http.Header, prefix string) (found bool, err error) {
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

// checkKnown returns an error about a setting that is not known: one that is misspelt would
// be passed over. It returns the names that are only to be told of: SDKs write whatever
// their users give them for callbacks, and Service- is what strangers may call their own
// headers (contract, decision 16).
func (c controls) checkKnown() (odd []string, err error) {
	for _, name := range slices.Sorted(slices.Values(c.unknown)) {
		if suffix, ours := strings.CutPrefix(name, upstashPrefix); ours && !isControl(suffix) {
			return nil, posthaste.Invalidf("%.100s is not known: what follows %s is one of %s", name, upstashPrefix, settingNames)
		}
		odd = append(odd, name)
	}
	return odd, nil
}

// maxWarnings bounds what an answer tells besides.
const maxWarnings = 10

// warning is the header of an answer that tells what had no effect.
const warning = "Posthaste-Warning"

// checkKnown is that of the controls of a request, or of an item of it. What is only to be
// told goes into the headers of the answer.
func (r *request) checkKnown(c controls) error {
	odd, err := c.checkKnown()
	header := r.writer.Header()
	for _, name := range odd {
		text := fmt.Sprintf("%.100s is not known and has no effect", name)
		if !slices.Contains(header[warning], text) && len(header[warning]) < maxWarnings {
			header.Add(warning, text)
		}
	}
	return err
}

// settingNames are the settings of messages and schedules, as an error lists them.
var settingNames = func() string {
	names := slices.Sorted(maps.Keys(controlNames))
	names = slices.DeleteFunc(names, func(name string) bool { return name == controlFeatureSet }) // SDKs alone have it
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

// withDefaults adds those of the default headers that were not given. Whose
// defaults they are does not matter to the dialect.
func (c controls) withDefaults(header http.Header) (controls, error) {
	defaults, err := collectControls(header, nil)
	if err != nil {
		return controls{}, err
	}
	maps.Copy(defaults.values, c.values)
	return controls{values: defaults.values, dialect: c.dialect}, nil
}

// header returns the controls as the headers they were given as.
func (c controls) header() http.Header {
	header := make(http.Header, len(c.values))
	for _, given := range c.values {
		header[given.name] = given.values
	}
	return header
}

// under returns the controls whose suffix begins with a prefix, without it.
func (c controls) under(prefix string) controls {
	nested := controls{dialect: c.dialect}
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
