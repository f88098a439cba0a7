package wire

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"posthaste"
	"posthaste/internal/backoff"
	"posthaste/internal/engine"
)

// settled is what controls say, apart from callbacks and forwarded headers.
type settled struct {
	engine.Publication
	forwardAll bool
}

// group is a group of controls, or a set of them: not all can be given everywhere.
type group uint8

const (
	ofSettings   group = 1 << iota // of a delivery
	ofDelay                        // when the first one is due
	ofStart                        // that, in place of a delay
	ofRepetition                   // what is taken for a repetition
	ofForwarding                   // which headers are passed on
)

// controlReaders read the controls with a value of their own (contract, messages 1.2 and 1.3), in the order
// in which errors are reported.
var controlReaders = []struct {
	suffix string
	group  group
	read   func(s *settled, given control) error
}{
	{controlDelay, ofDelay, func(s *settled, given control) (err error) {
		s.Delay, err = given.duration()
		return err
	}},
	{controlNotBefore, ofStart, func(s *settled, given control) (err error) {
		s.NotBefore, err = given.unixSeconds()
		return err
	}},
	{controlDeduplicationID, ofRepetition, func(s *settled, given control) error {
		s.DeduplicationID = given.text()
		return posthaste.CheckDeduplicationID(given.name, s.DeduplicationID)
	}},
	{controlContentDedup, ofRepetition, func(s *settled, given control) (err error) {
		s.ContentBasedDeduplication, err = given.boolean()
		return err
	}},
	{controlMethod, ofSettings, func(s *settled, given control) error {
		if s.Method = strings.ToUpper(given.text()); !slices.Contains(methods, s.Method) {
			return given.invalid("one of " + strings.Join(methods, ", "))
		}
		return nil
	}},
	{controlRetries, ofSettings, func(s *settled, given control) error {
		retries, ok := ParseCount(given.text())
		if !ok {
			return given.invalid("a whole number of at least 0")
		}
		s.Retries = &retries
		return nil
	}},
	{controlRetryDelay, ofSettings, func(s *settled, given control) error {
		s.RetryDelay = given.text()
		return backoff.Check(given.name, s.RetryDelay)
	}},
	{controlTimeout, ofSettings, func(s *settled, given control) (err error) {
		if s.Timeout, err = given.duration(); err == nil && s.Timeout == 0 {
			err = given.invalid("a duration longer than 0")
		}
		return err
	}},
	{controlLabel, ofSettings, func(s *settled, given control) (err error) {
		s.Labels, err = parseLabels(given)
		return err
	}},
	{controlRedactFields, ofSettings, func(s *settled, given control) (err error) {
		s.Redact, err = parseRedaction(given)
		return err
	}},
	{controlFlowControlKey, ofSettings, func(s *settled, given control) error {
		s.FlowControl.Key = given.text()
		return posthaste.CheckFlowKey(given.name, s.FlowControl.Key)
	}},
	{controlFlowControlValue, ofSettings, func(s *settled, given control) (err error) {
		s.FlowControl.FlowLimit, err = parseFlowLimit(given)
		return err
	}},
	{controlHeaderForward, ofForwarding, func(s *settled, given control) (err error) {
		s.forwardAll, err = given.boolean()
		return err
	}},
}

var methods = []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}

// read reads the controls of some groups. A bad value is an Error with CodeInvalid.
func (c Controls) read(groups group) (s settled, err error) {
	s.Dialect = c.dialect
	for _, reader := range controlReaders {
		given, ok := c.values[reader.suffix]
		if !ok || reader.group&groups == 0 {
			continue
		}
		if err := reader.read(&s, given); err != nil {
			return settled{}, err
		}
	}
	s.Header, err = forwardedHeader(c)
	return s, err
}

// checkFlowControl returns an error unless key and value are given together (contract, U-6).
func checkFlowControl(c Controls) error {
	key, hasKey := c.values[controlFlowControlKey]
	value, hasValue := c.values[controlFlowControlValue]
	switch {
	case hasKey && !hasValue:
		return posthaste.Invalidf("%s %.100q also requires the header %s, such as parallelism=1",
			key.name, key.text(), siblingName(key.name, "Value"))
	case hasValue && !hasKey:
		return posthaste.Invalidf("%s %.100q also requires the header %s",
			value.name, value.text(), siblingName(value.name, "Key"))
	default:
		return nil
	}
}

// siblingName replaces the last word of a header's name.
func siblingName(name, word string) string {
	return name[:strings.LastIndexByte(name, '-')+1] + word
}

// limitedBy has the controls of limited settings, overriding ones first.
var limitedBy = map[engine.Setting][]string{
	engine.SettingRetries: {controlRetries},
	engine.SettingDelay:   {controlNotBefore, controlDelay},
	engine.SettingTimeout: {controlTimeout},
}

// partPrefix has the prefix of a part's controls.
var partPrefix = map[engine.Part]string{
	engine.PartCallback:        controlCallback + "-",
	engine.PartFailureCallback: controlFailureCallback + "-",
}

// NameLimit names the control in an error about a limit. It leaves other errors, nil, and
// settings from elsewhere, such as a group's default.
func (c Controls) NameLimit(err error) error {
	over, ok := errors.AsType[*engine.OverLimit](err)
	if !ok {
		return err
	}
	for _, suffix := range limitedBy[over.Setting] {
		if given, ok := c.values[partPrefix[over.Part]+suffix]; ok {
			return posthaste.Errorf(posthaste.CodeLimit, "%s %.100q is %s", given.name, given.text(), over.Fault)
		}
	}
	return err
}

// invalid returns the error about a value.
func (c control) invalid(accepted string) error {
	return posthaste.Invalidf("%s %.100q is not %s", c.name, c.text(), accepted)
}

func (c control) duration() (time.Duration, error) {
	d, err := backoff.ParseDuration(c.text())
	if err != nil {
		return 0, posthaste.Invalidf("%s %v", c.name, err)
	}
	return d, nil
}

func (c control) boolean() (bool, error) {
	switch strings.ToLower(c.text()) {
	case "true":
		return true, nil
	case "false":
		return false, nil
	default:
		return false, c.invalid("true or false")
	}
}

// endOfTime is the last Unix second of the year 9999.
const endOfTime = 253402300799

func (c control) unixSeconds() (time.Time, error) {
	seconds, err := strconv.ParseUint(c.text(), 10, 63)
	if err != nil || seconds > endOfTime {
		return time.Time{}, c.invalid("a Unix time in seconds before the year 10000")
	}
	return time.Unix(int64(seconds), 0), nil
}

// parseLabels parses a comma-separated list, without blanks, empty labels and repetitions
// (contract, U-81).
func parseLabels(given control) ([]string, error) {
	var labels []string
	for label := range strings.SplitSeq(given.text(), ",") {
		label = strings.TrimSpace(label)
		switch {
		case label == "" || slices.Contains(labels, label):
			continue
		case len(label) > posthaste.MaxLabelLen:
			return nil, posthaste.Invalidf("%s has the label %.40q…, a label has at most %d bytes",
				given.name, label, posthaste.MaxLabelLen)
		case len(labels) == posthaste.MaxLabels:
			return nil, posthaste.Invalidf("%s has more than the %d labels that a message can have", given.name, posthaste.MaxLabels)
		}
		labels = append(labels, label)
	}
	return labels, nil
}

// parseRedaction parses a comma-separated list of body, header (or headers) and header[Name].
func parseRedaction(given control) (posthaste.Redaction, error) {
	var r posthaste.Redaction
	for field := range strings.SplitSeq(given.text(), ",") {
		field = strings.TrimSpace(field)
		what, name, single := cutBrackets(field)
		what = strings.ToLower(what)
		isHeader := what == "header" || what == "headers"
		switch {
		case field == "":
		case what == "body" && !single:
			r.Body = true
		case isHeader && !single:
			r.AllHeaders = true
		case isHeader && posthaste.IsHeaderName(name):
			r.Headers = append(r.Headers, http.CanonicalHeaderKey(name))
		default:
			return posthaste.Redaction{}, posthaste.Invalidf("%s %.100q cannot be redacted, give body, header or header[Name]",
				given.name, field)
		}
	}
	return r, nil
}

// cutBrackets splits "header[Name]"; ok is false without brackets.
func cutBrackets(text string) (before, within string, ok bool) {
	before, rest, ok := strings.Cut(text, "[")
	if !ok {
		return text, "", false
	}
	within, closed := strings.CutSuffix(rest, "]")
	if !closed {
		return text, "", false
	}
	return strings.TrimSpace(before), strings.TrimSpace(within), true
}

// MaxFlowPeriod limits the window of a rate.
const MaxFlowPeriod = 7 * 24 * time.Hour

// parseFlowLimit parses parallelism=<n>, rate=<n> and period=<duration>, in any order.
func parseFlowLimit(given control) (posthaste.FlowLimit, error) {
	var limit posthaste.FlowLimit
	for part := range strings.SplitSeq(given.text(), ",") {
		name, value, _ := strings.Cut(part, "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !setFlowLimit(&limit, name, value) {
			return posthaste.FlowLimit{}, given.invalid("a list such as parallelism=2, rate=10, period=1m, " +
				"each given once, with numbers of at least 1 and a period of whole seconds up to 7d")
		}
	}
	return limit, nil
}

// setFlowLimit sets a part of a limit once.
func setFlowLimit(limit *posthaste.FlowLimit, name, value string) bool {
	switch name {
	case "parallelism":
		return setCount(&limit.Parallelism, value)
	case "rate":
		return setCount(&limit.Rate, value)
	case "period":
		period, err := backoff.ParseDuration(value)
		if err != nil || limit.Period != 0 || period%time.Second != 0 || period < time.Second || period > MaxFlowPeriod {
			return false
		}
		limit.Period = period
		return true
	default:
		return false
	}
}

func setCount(count *int, value string) bool {
	n, ok := ParseCount(value)
	if !ok || n < 1 || *count != 0 {
		return false
	}
	*count = n
	return true
}

// MaxCount is the largest count that is accepted.
const MaxCount = 1<<31 - 1

// ParseCount parses digits, up to MaxCount.
func ParseCount(text string) (int, bool) {
	n, err := strconv.ParseUint(text, 10, 31)
	return int(n), err == nil
}
