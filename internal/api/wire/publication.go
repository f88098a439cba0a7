package wire

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"posthaste"
	"posthaste/internal/cron"
	"posthaste/internal/engine"
	"posthaste/internal/weburl"
)

// Decoder decodes publications.
type Decoder struct {
	CheckHost func(host string) error // returns why a host, without port and brackets, is refused
}

// Publication reads controls and headers of a publication. A bad value is an Error with
// CodeInvalid.
func (d Decoder) Publication(c Controls, in Incoming) (engine.Publication, error) {
	return d.publication(c, in, ofSettings|ofDelay|ofStart|ofRepetition|ofForwarding)
}

// Delivery reads the settings of a message.
func (d Decoder) Delivery(c Controls, in Incoming) (posthaste.Settings, error) {
	p, err := d.publication(c, in, ofSettings|ofForwarding)
	return p.Settings, err
}

func (d Decoder) publication(c Controls, in Incoming, groups group) (engine.Publication, error) {
	if err := checkFlowControl(c); err != nil {
		return engine.Publication{}, err
	}
	s, err := d.withCallbacks(c, groups)
	if err != nil {
		return engine.Publication{}, err
	}
	s.Trace = in.trace(s.Header)
	s.Header = in.forward(s.Header, s.forwardAll)
	return s.Publication, nil
}

// Overrides reads the overrides of a retry; half of a flow control overrides that half.
func (d Decoder) Overrides(c Controls) (posthaste.Overrides, error) {
	s, err := d.withCallbacks(c, ofSettings|ofDelay|ofStart)
	return posthaste.Overrides{Delay: s.Delay, NotBefore: s.NotBefore, Settings: s.Settings}, err
}

// withCallbacks reads controls of some groups, and callbacks.
func (d Decoder) withCallbacks(c Controls, groups group) (s settled, err error) {
	if s, err = c.read(groups); err != nil {
		return s, err
	}
	if s.Callback, err = d.callback(c, controlCallback); err != nil {
		return settled{}, err
	}
	s.FailureCallback, err = d.callback(c, controlFailureCallback)
	return s, err
}

// callback reads the controls of a callback (contract, messages 1.5), nil without URL. Settings
// without URL are only checked, because the URL may be left out on purpose.
func (d Decoder) callback(c Controls, family string) (*posthaste.Callback, error) {
	nested := c.under(family + "-")
	given, ok := c.values[family]
	if !ok && len(nested.values) == 0 {
		return nil, nil
	}
	if err := checkFlowControl(nested); err != nil {
		return nil, err
	}
	s, err := nested.read(ofSettings | ofDelay)
	if err != nil || !ok {
		return nil, err
	}
	callback := &posthaste.Callback{Settings: s.Settings, Delay: s.Delay, Given: givenHeader(nested, s.Header)}
	callback.URL, err = d.URL(given.name, given.text())
	return callback, err
}

// givenHeader returns a family's headers for display (contract, U-11, U-12), nil if there are
// none.
func givenHeader(nested Controls, forwarded http.Header) http.Header {
	if len(nested.values) == 0 {
		return nil
	}
	header := make(http.Header, len(nested.values))
	for name, values := range forwarded {
		header[name] = values
	}
	for suffix, given := range nested.values {
		if !strings.HasPrefix(suffix, ForwardPrefix) {
			header[given.name] = given.values
		}
	}
	return header
}

// URL returns a URL in ASCII, or an Error with CodeInvalid, which starts with name.
func (d Decoder) URL(name, text string) (string, error) {
	text, err := weburl.ASCII(name, text)
	if err != nil {
		return "", err
	}
	return text, d.checkURL(name, text)
}

func (d Decoder) checkURL(name, text string) error {
	u, err := posthaste.ParseURL(name, text, text)
	if err != nil {
		return err
	}
	if strings.ContainsRune(text, ' ') {
		return posthaste.Invalidf("%s %.200q contains a space: write it as %%20", name, text)
	}
	if err := d.CheckHost(u.Hostname()); err != nil {
		return posthaste.Invalidf("%s %.200q is refused: %v", name, text, err)
	}
	return nil
}

// forwardedHeader returns the headers with the Forward- prefix, nil if there are none.
// Content-Type is that of the publication.
func forwardedHeader(c Controls) (http.Header, error) {
	var header http.Header
	for suffix, given := range c.values {
		name, ok := strings.CutPrefix(suffix, ForwardPrefix)
		if !ok || name == "Content-Type" || posthaste.IsConnectionHeader(name) {
			continue
		}
		if name == "" {
			return nil, posthaste.Invalidf("%s lacks the name of the header to forward, write %sX-Name", given.name, given.name)
		}
		if header == nil {
			header = make(http.Header)
		}
		header[name] = given.values
	}
	return header, nil
}

// Incoming is the header of a publication without controls.
type Incoming struct {
	Header http.Header
	// OwnsAuthorization means that Authorization has our token, which is not forwarded.
	OwnsAuthorization bool
	// OuterTrace is the request's trace, for items of a batch without their own.
	OuterTrace posthaste.TraceContext
}

// trace returns the publisher's trace context, from its own or a forwarded header.
func (in Incoming) trace(forwarded http.Header) posthaste.TraceContext {
	const name = "Traceparent"
	for _, header := range []http.Header{in.Header, forwarded} {
		if trace, ok := posthaste.ParseTraceContext(header.Get(name)); ok {
			return trace
		}
	}
	return in.OuterTrace
}

// forward adds Content-Type and, if everything is forwarded, all other incoming headers that may be
// (contract, U-8) to those that are named. It returns nil if there are none.
func (in Incoming) forward(named http.Header, everything bool) http.Header {
	if named == nil {
		named = make(http.Header)
	}
	if contentType := in.Header.Get("Content-Type"); contentType != "" {
		named.Set("Content-Type", contentType)
	}
	for name, values := range in.Header {
		if _, given := named[name]; everything && !given && in.mayForward(name) {
			named[name] = values
		}
	}
	if len(named) == 0 {
		return nil
	}
	return named
}

func (in Incoming) mayForward(name string) bool {
	switch {
	case name == "Accept-Encoding" || name == "User-Agent":
		return false
	case name == "Authorization":
		return !in.OwnsAuthorization
	case strings.HasPrefix(name, UpstashPrefix) || strings.HasPrefix(name, ServicePrefix):
		return false
	default:
		return !posthaste.IsConnectionHeader(name) && !in.isPerConnection(name)
	}
}

// WithoutConnection returns a copy without headers of one connection.
func (in Incoming) WithoutConnection() http.Header {
	header := make(http.Header, len(in.Header))
	for name, values := range in.Header {
		if !posthaste.IsConnectionHeader(name) && !in.isPerConnection(name) {
			header[name] = values
		}
	}
	return header
}

// isPerConnection reports whether the Connection header lists the name.
func (in Incoming) isPerConnection(name string) bool {
	for _, value := range in.Header["Connection"] {
		for listed := range strings.SplitSeq(value, ",") {
			if strings.EqualFold(strings.TrimSpace(listed), name) {
				return true
			}
		}
	}
	return false
}

// ReadSchedule reads the controls of schedules.
func ReadSchedule(schedule *posthaste.Schedule, c Controls) error {
	expression, ok := c.values[controlCron]
	if !ok {
		return posthaste.Invalidf("Upstash-Cron is missing, a schedule needs a cron expression such as */5 * * * *")
	}
	schedule.Cron = expression.text()
	if _, err := cron.Parse(schedule.Cron); err != nil {
		return posthaste.Invalidf("%s %v", expression.name, err)
	}
	if start, ok := c.values[controlNotBefore]; ok {
		return posthaste.Invalidf("%s %.100q cannot be given to a schedule: its messages start at its ticks", start.name, start.text())
	}
	if id, ok := c.values[controlScheduleID]; ok {
		schedule.ID = id.text()
		if err := posthaste.CheckNewName(id.name, schedule.ID); err != nil {
			return err
		}
	}
	if queue, ok := c.values[controlQueueName]; ok && schedule.Queue == "" {
		schedule.Queue = queue.text()
		return posthaste.CheckNewName(queue.name, schedule.Queue)
	}
	return nil
}

// notDefaults are controls that cannot be the same for every publication.
var notDefaults = []string{controlCron, controlScheduleID}

// CheckDefaults returns an Error with CodeInvalid for headers that cannot be defaults.
func (d Decoder) CheckDefaults(header http.Header) error {
	c, err := Collect(header, nil)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(header)) {
		suffix := strings.TrimPrefix(strings.TrimPrefix(name, UpstashPrefix), ServicePrefix)
		if suffix == name || !isKnown(suffix) || slices.Contains(notDefaults, suffix) {
			return posthaste.Invalidf("header %.100q cannot be a default of a URL group: give control headers of messages, "+
				"such as Upstash-Retries or Upstash-Forward-X-Name", name)
		}
	}
	_, err = d.Publication(c, Incoming{})
	return err
}
