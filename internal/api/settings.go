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

// settingDecoders decode the settings of messages and callbacks (contract, messages 1.3), in the
// order in which errors are reported.
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

// decodeSettings reads all settings but callbacks. A bad value is an Error with CodeInvalid.
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

// decodeFlowControl reads flow-control key and value, each optional.
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

// checkFlowControl returns an error unless key and value are given together (contract, U-6).
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

// nameLimit names the control in an error about a limit. It leaves other errors, nil, and
// settings from elsewhere, such as a group's default.
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
