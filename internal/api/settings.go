package api

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

// settingDecoders reads the controls that are settings of every message,
// callbacks included (contract, messages 1.3). They are tried in this order, so
// that of several bad values always the same one is reported.
var settingDecoders = []struct {
	suffix string
	decode func(s *posthaste.Settings, given control) error
}{
	{controlMethod, decodeMethod},
	{controlRetries, decodeRetries},
	{controlRetryDelay, decodeRetryDelay},
	{controlTimeout, decodeTimeout},
	{controlLabel, decodeLabels},
	{controlRedactFields, decodeRedaction},
}

// decodeSettings reads what every message can be given: all settings but the
// callbacks. A bad value is an Error with CodeInvalid.
func decodeSettings(c controls) (posthaste.Settings, error) {
	s := posthaste.Settings{Dialect: c.dialect}
	for _, setting := range settingDecoders {
		given, ok := c.values[setting.suffix]
		if !ok {
			continue
		}
		if err := setting.decode(&s, given); err != nil {
			return posthaste.Settings{}, err
		}
	}
	var err error
	if s.FlowControl, err = decodeFlowControl(c); err != nil {
		return posthaste.Settings{}, err
	}
	s.Header, err = forwardedHeader(c)
	return s, err
}

var methods = []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}

func decodeMethod(s *posthaste.Settings, given control) error {
	s.Method = strings.ToUpper(given.text())
	if !slices.Contains(methods, s.Method) {
		return given.invalid("one of " + strings.Join(methods, ", "))
	}
	return nil
}

func decodeRetries(s *posthaste.Settings, given control) error {
	retries, ok := parseCount(given.text())
	if !ok {
		return given.invalid("a whole number of at least 0")
	}
	s.Retries = &retries
	return nil
}

func decodeRetryDelay(s *posthaste.Settings, given control) error {
	s.RetryDelay = given.text()
	return backoff.Check(given.name, s.RetryDelay)
}

func decodeTimeout(s *posthaste.Settings, given control) (err error) {
	if s.Timeout, err = given.duration(); err != nil {
		return err
	}
	if s.Timeout == 0 {
		return given.invalid("a duration longer than 0")
	}
	return nil
}

func decodeLabels(s *posthaste.Settings, given control) (err error) {
	s.Labels, err = parseLabels(given)
	return err
}

func decodeRedaction(s *posthaste.Settings, given control) (err error) {
	s.Redact, err = parseRedaction(given)
	return err
}

// decodeFlowControl reads the flow-control key and what it allows, each if it is
// given.
func decodeFlowControl(c controls) (flow posthaste.FlowControl, err error) {
	if key, ok := c.values[controlFlowControlKey]; ok {
		flow.Key = key.text()
		if err := posthaste.CheckFlowKey(key.name, flow.Key); err != nil {
			return flow, err
		}
	}
	if value, ok := c.values[controlFlowControlValue]; ok {
		flow.FlowLimit, err = parseFlowLimit(value)
	}
	return flow, err
}

// checkFlowControl returns an error unless the flow-control key and what it
// allows are given together (contract, U-6).
func checkFlowControl(c controls) error {
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

// limitedBy are the controls that give the settings which have limits, the
// stronger ones first.
var limitedBy = map[engine.Setting][]string{
	engine.SettingRetries: {controlRetries},
	engine.SettingDelay:   {controlNotBefore, controlDelay},
	engine.SettingTimeout: {controlTimeout},
}

// partPrefix is what the names of the controls of a part begin with.
var partPrefix = map[engine.Part]string{
	engine.PartCallback:        controlCallback + "-",
	engine.PartFailureCallback: controlFailureCallback + "-",
}

// nameLimit puts the control that gave a setting into an error about its limit.
// It leaves other errors, and nil, as they are, and those about a setting that
// came from elsewhere: a default of a URL group, or a dead letter.
func (c controls) nameLimit(err error) error {
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

// nameLimit does so with the controls of the request.
func (r *request) nameLimit(err error) error {
	if err == nil {
		return nil
	}
	c, bad := collectControls(r.Header, r.reserved)
	if bad != nil {
		return err
	}
	return c.nameLimit(err)
}

// invalid is the error of a bad value.
func (c control) invalid(accepted string) error {
	return posthaste.Invalidf("%s %.100q is not %s", c.name, c.text(), accepted)
}

// duration reads the value as a duration.
func (c control) duration() (time.Duration, error) {
	d, err := backoff.ParseDuration(c.text())
	if err != nil {
		return 0, posthaste.Invalidf("%s %v", c.name, err)
	}
	return d, nil
}

// boolean reads the value as true or false, in any letter case.
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

// endOfTime is the last second with a year of four digits, in Unix seconds.
const endOfTime = 253402300799

// unixSeconds reads the value as a time.
func (c control) unixSeconds() (time.Time, error) {
	seconds, err := strconv.ParseUint(c.text(), 10, 63)
	if err != nil || seconds > endOfTime {
		return time.Time{}, c.invalid("a Unix time in seconds before the year 10000")
	}
	return time.Unix(int64(seconds), 0), nil
}
