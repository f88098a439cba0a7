package api

import (
	"net/http"
	"net/url"
	"strings"

	"posthaste"
	"posthaste/internal/engine"
	"posthaste/internal/weburl"
)

// decoder turns what a publisher sent into what the engine takes.
type decoder struct {
	checkHost func(host string) error
}

// publication reads everything but the destination and the body from the
// controls and the other headers that came with them. A bad value is an Error
// with CodeInvalid.
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

// delivery reads what a message is sent with.
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

// overrides reads what a dead letter is retried with. Half of a flow control
// overrides that half.
func (d decoder) overrides(c controls) (engine.Overrides, error) {
	p, err := decodeTimes(c)
	if err != nil {
		return engine.Overrides{}, err
	}
	settings, err := d.settings(c)
	return engine.Overrides{Delay: p.Delay, NotBefore: p.NotBefore, Settings: settings}, err
}

// DecodeOverrides reads the overrides of a bulk action, which are kept as the
// headers they came in and were found valid then.
func DecodeOverrides(header http.Header) (engine.Overrides, error) {
	c, err := collectControls(header, nil)
	if err != nil {
		return engine.Overrides{}, err
	}
	return decoder{checkHost: allowAll}.overrides(c)
}

// allowAll allows deliveries to every host.
func allowAll(string) error { return nil }

// decodeTimes reads when the first attempt may be made.
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

// settings reads the settings of a message, its callbacks included.
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

// header completes the forwarded headers with what came without a prefix: the
// Content-Type, and the rest if the publisher asked for it. It returns nil
// rather than an empty header.
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

// callback reads one family of callback controls (contract, messages 1.5); it
// returns nil if no URL was given. Settings without a URL are checked all the
// same, and have no effect: the URL may be one that was left out on purpose.
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

// givenHeader returns a family's headers for display: forwarded ones under
// their own names, all others in full, unknown ones too (contract, U-11, U-12).
// It is nil if there are none.
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

// url returns a URL in ASCII, as it is stored and shown everywhere, or an Error with
// CodeInvalid if no request can be made to it. The name of the parameter begins the sentence.
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
