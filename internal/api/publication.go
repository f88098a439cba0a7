package api

import (
	"net/http"
	"net/url"
	"strings"

	"posthaste"
	"posthaste/internal/engine"
	"posthaste/internal/weburl"
)

// decoder decodes publications.
type decoder struct {
	checkHost func(host string) error
}

// publication reads controls and headers of a publication. A bad value is an Error with
// CodeInvalid.
func (d decoder) publication(c controls, in incoming) (engine.Publication, error) {
	p, err := decodeTimes(c)
	if err != nil {
		return engine.Publication{}, err
	}
	if err := decodeDeduplication(&p, c); err != nil {
		return engine.Publication{}, err
	}
	p.Settings, err = d.delivery(c, in)
	return p, err
}

// delivery reads the settings of a message.
func (d decoder) delivery(c controls, in incoming) (s posthaste.Settings, err error) {
	if err := checkFlowControl(c); err != nil {
		return s, err
	}
	if s, err = d.settings(c); err != nil {
		return s, err
	}
	s.Trace = in.trace(s.Header)
	s.Header, err = d.header(s.Header, c, in)
	return s, err
}

// overrides reads the overrides of a retry; half of a flow control overrides that half.
func (d decoder) overrides(c controls) (posthaste.Overrides, error) {
	p, err := decodeTimes(c)
	if err != nil {
		return posthaste.Overrides{}, err
	}
	settings, err := d.settings(c)
	return posthaste.Overrides{Delay: p.Delay, NotBefore: p.NotBefore, Settings: settings}, err
}

// decodeTimes reads the time of the first attempt.
func decodeTimes(c controls) (p engine.Publication, err error) {
	if given, ok := c.values[controlDelay]; ok {
		if p.Delay, err = given.duration(); err != nil {
			return p, err
		}
	}
	if given, ok := c.values[controlNotBefore]; ok {
		p.NotBefore, err = given.unixSeconds()
	}
	return p, err
}

func decodeDeduplication(p *engine.Publication, c controls) (err error) {
	if given, ok := c.values[controlDeduplicationID]; ok {
		p.DeduplicationID = given.text()
		if err := posthaste.CheckDeduplicationID(given.name, p.DeduplicationID); err != nil {
			return err
		}
	}
	if given, ok := c.values[controlContentDedup]; ok {
		p.ContentBasedDeduplication, err = given.boolean()
	}
	return err
}

// settings reads settings and callbacks.
func (d decoder) settings(c controls) (posthaste.Settings, error) {
	s, err := decodeSettings(c)
	if err != nil {
		return posthaste.Settings{}, err
	}
	if s.Callback, err = d.callback(c, controlCallback); err != nil {
		return posthaste.Settings{}, err
	}
	s.FailureCallback, err = d.callback(c, controlFailureCallback)
	return s, err
}

// header adds Content-Type and, if requested, all other incoming headers to the forwarded ones.
// It returns nil if empty.
func (d decoder) header(forwarded http.Header, c controls, in incoming) (http.Header, error) {
	if forwarded == nil {
		forwarded = make(http.Header)
	}
	if contentType := in.contentType(); contentType != "" {
		forwarded.Set("Content-Type", contentType)
	}
	if given, ok := c.values[controlHeaderForward]; ok {
		everything, err := given.boolean()
		if err != nil {
			return nil, err
		}
		if everything {
			in.addAll(forwarded)
		}
	}
	if len(forwarded) == 0 {
		return nil, nil
	}
	return forwarded, nil
}

// callback reads the controls of a callback (contract, messages 1.5), nil without URL. Settings
// without URL are only checked, because the URL may be left out on purpose.
func (d decoder) callback(c controls, family string) (*posthaste.Callback, error) {
	nested := c.under(family + "-")
	given, ok := c.values[family]
	if !ok && len(nested.values) == 0 {
		return nil, nil
	}
	if err := checkFlowControl(nested); err != nil {
		return nil, err
	}
	settings, err := decodeSettings(nested)
	if err != nil {
		return nil, err
	}
	callback := &posthaste.Callback{Settings: settings, Given: givenHeader(nested, settings.Header)}
	if delay, ok := nested.values[controlDelay]; ok {
		if callback.Delay, err = delay.duration(); err != nil {
			return nil, err
		}
	}
	if !ok {
		return nil, nil
	}
	callback.URL, err = d.url(given.name, given.text())
	return callback, err
}

// givenHeader returns a family's headers for display (contract, U-11, U-12), nil if there are
// none.
func givenHeader(nested controls, forwarded http.Header) http.Header {
	if len(nested.values) == 0 {
		return nil
	}
	header := make(http.Header, len(nested.values))
	for name, values := range forwarded {
		header[name] = values
	}
	for suffix, given := range nested.values {
		if !strings.HasPrefix(suffix, forwardPrefix) {
			header[given.name] = given.values
		}
	}
	return header
}

// url returns a URL in ASCII, or an Error with CodeInvalid, which starts with name.
func (d decoder) url(name, text string) (string, error) {
	text, err := weburl.ASCII(name, text)
	if err != nil {
		return "", err
	}
	return text, d.checkURL(name, text)
}

func (d decoder) checkURL(name, text string) error {
	if err := posthaste.CheckURL(name, text); err != nil {
		return err
	}
	if strings.ContainsRune(text, ' ') {
		return posthaste.Invalidf("%s %.200q contains a space: write it as %%20", name, text)
	}
	u, err := url.Parse(text)
	if err != nil {
		return posthaste.Invalidf("%s %.200q is not a URL", name, text)
	}
	if err := d.checkHost(u.Hostname()); err != nil {
		return posthaste.Invalidf("%s %.200q is refused: %v", name, text, err)
	}
	return nil
}

// forwardedHeader returns the headers with the Forward- prefix, nil if there are none.
// Content-Type is that of the publication.
func forwardedHeader(c controls) (http.Header, error) {
	var header http.Header
	for suffix, given := range c.values {
		name, ok := strings.CutPrefix(suffix, forwardPrefix)
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

// incoming is the header of a publication without controls.
type incoming struct {
	header http.Header
	// ownsAuthorization means that Authorization has our token, which is not forwarded.
	ownsAuthorization bool
	// outerTrace is the request's trace, for items of a batch without their own.
	outerTrace posthaste.TraceContext
}

func (in incoming) contentType() string { return in.header.Get("Content-Type") }

// trace returns the publisher's trace context, from its own or a forwarded header.
func (in incoming) trace(forwarded http.Header) posthaste.TraceContext {
	const name = "Traceparent"
	for _, header := range []http.Header{in.header, forwarded} {
		if trace, ok := posthaste.ParseTraceContext(header.Get(name)); ok {
			return trace
		}
	}
	return in.outerTrace
}

// addAll adds incoming headers that may be forwarded (contract, U-8) and are not set.
func (in incoming) addAll(header http.Header) {
	for name, values := range in.header {
		if _, given := header[name]; !given && in.mayForward(name) {
			header[name] = values
		}
	}
}

func (in incoming) mayForward(name string) bool {
	switch {
	case name == "Accept-Encoding" || name == "User-Agent":
		return false
	case name == "Authorization":
		return !in.ownsAuthorization
	case strings.HasPrefix(name, upstashPrefix) || strings.HasPrefix(name, servicePrefix):
		return false
	default:
		return !posthaste.IsConnectionHeader(name) && !in.isPerConnection(name)
	}
}

// withoutConnection returns a copy without headers of one connection.
func (in incoming) withoutConnection() http.Header {
	header := make(http.Header, len(in.header))
	for name, values := range in.header {
		if !posthaste.IsConnectionHeader(name) && !in.isPerConnection(name) {
			header[name] = values
		}
	}
	return header
}

// isPerConnection reports whether the Connection header lists the name.
func (in incoming) isPerConnection(name string) bool {
	for _, value := range in.header["Connection"] {
		for listed := range strings.SplitSeq(value, ",") {
			if strings.EqualFold(strings.TrimSpace(listed), name) {
				return true
			}
		}
	}
	return false
}
