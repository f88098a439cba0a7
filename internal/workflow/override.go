package workflow

import (
	"maps"
	"net/http"
	"strings"

	"posthaste"
	"posthaste/internal/engine"
)

// cloneFailed makes a run with a new id and the settings of a failed one, with overrides (section
// 7.3). Waiters and invokers are not copied. Rejected overrides are an Error that is not
// internal.
func (t *tx) cloneFailed(failed *posthaste.Run, req *RestartRequest) (*posthaste.Run, error) {
	id, err := t.service.newRunID(t.user)
	if err != nil {
		return nil, err
	}
	run := &posthaste.Run{
		RunRef:   posthaste.RunRef{ID: id, URL: failed.URL},
		User:     t.user,
		CallerIP: req.CallerIP,
		Features: failed.Features,
		LazySDK:  failed.LazySDK,
		Queue:    failed.Queue,
		Settings: withOverrides(failed.Settings, &req.Overrides.Settings),
		Origin:   &posthaste.RunOrigin{RunRef: failed.RunRef, DeadLetterID: failed.DeadLetterID, Resumed: req.Resume},

		Overridden: failed.Overridden | overriddenBy(&req.Overrides.Settings),
	}
	run.FailureCallback = withFailureOverrides(run, failed.FailureCallback, &req.Overrides.Settings)
	if given := req.Overrides.FailureCallback; given != nil && run.FailureCallback == nil {
		run.FailureCallback = OwnFailureCallback(given.URL, run.Header)
	}
	if err := engine.CheckFlowControl(run.FlowControl, "failed run"); err != nil {
		return nil, err
	}
	wait := req.Overrides.StartAt(t.Now()).Sub(t.Now())
	return run, t.service.options.Limits.Check(engine.Publication{Settings: run.Settings}, wait)
}

// CheckOverrides returns an Error if overrides that apply to runs exceed a limit.
func (s *Service) CheckOverrides(o posthaste.Overrides) error {
	o.Settings = withOverrides(posthaste.Settings{}, &o.Settings)
	return s.options.Limits.CheckOverrides(o, s.now())
}

// withOverrides applies the overrides that a run accepts (section 7.2), except callbacks, to
// settings. Labels are changed in the header too.
func withOverrides(s posthaste.Settings, o *posthaste.Settings) posthaste.Settings {
	s = s.With(posthaste.Settings{Retries: o.Retries, RetryDelay: o.RetryDelay, FlowControl: o.FlowControl, Labels: o.Labels})
	if len(o.Labels) > 0 {
		s.Header = withHeader(s.Header, headerLabel, joinLabels(o.Labels))
	}
	return s
}

// overriddenBy returns which settings are overridden.
func overriddenBy(o *posthaste.Settings) (set posthaste.Overridden) {
	for setting, given := range map[posthaste.Overridden]bool{
		posthaste.OverriddenRetries:         o.Retries != nil,
		posthaste.OverriddenRetryDelay:      o.RetryDelay != "",
		posthaste.OverriddenFlowControl:     o.FlowControl != posthaste.FlowControl{},
		posthaste.OverriddenLabels:          len(o.Labels) > 0,
		posthaste.OverriddenFailureCallback: o.FailureCallback != nil,
	} {
		if given {
			set |= setting
		}
	}
	return set
}

// overridesOf returns a run's overrides.
func overridesOf(run *posthaste.Run) *posthaste.Settings {
	var o posthaste.Settings
	if run.Overridden.Has(posthaste.OverriddenRetries) {
		o.Retries = run.Retries
	}
	if run.Overridden.Has(posthaste.OverriddenRetryDelay) {
		o.RetryDelay = run.RetryDelay
	}
	if run.Overridden.Has(posthaste.OverriddenFlowControl) {
		o.FlowControl = run.FlowControl
	}
	if run.Overridden.Has(posthaste.OverriddenLabels) {
		o.Labels = run.Labels
	}
	if run.Overridden.Has(posthaste.OverriddenFailureCallback) {
		o.FailureCallback = run.FailureCallback
	}
	return &o
}

// overridden applies a run's overrides to the settings of a delivery.
func overridden(run *posthaste.Run, own posthaste.Settings) posthaste.Settings {
	own = withOverrides(own, overridesOf(run))
	own.FailureCallback = failureCallbackOf(run, own.FailureCallback)
	return own
}

// ofRun changes the run id in a failed run's callback, nil for nil.
func ofRun(run *posthaste.Run, callback *posthaste.Callback) *posthaste.Callback {
	if callback == nil {
		return nil
	}
	c := *callback
	c.Given = maps.Clone(callback.Given)
	for name := range c.Given {
		if strings.HasSuffix(name, "-Workflow-Runid") {
			c.Given[name] = []string{run.ID}
		}
	}
	return &c
}

// failureCallbackOf is ofRun for a failure callback, with the run's overrides.
func failureCallbackOf(run *posthaste.Run, callback *posthaste.Callback) *posthaste.Callback {
	return withFailureOverrides(run, callback, overridesOf(run))
}

// withFailureOverrides is ofRun for a failure callback, with an overridden URL, and labels where
// it has them.
func withFailureOverrides(run *posthaste.Run, callback *posthaste.Callback, o *posthaste.Settings) *posthaste.Callback {
	c := ofRun(run, callback)
	if c == nil {
		return nil
	}
	if o.FailureCallback != nil {
		c.URL = o.FailureCallback.URL
	}
	if len(o.Labels) > 0 && c.Settings.Header.Get(headerLabel) != "" {
		c.Settings.Header = withHeader(c.Settings.Header, headerLabel, joinLabels(run.Labels))
		c.Given = withHeader(c.Given, headerLabel, joinLabels(run.Labels))
	}
	return c
}

// OwnFailureCallback is the failure callback of a run triggered without the SDK's protocol:
// forwarded headers are sent to it too.
func OwnFailureCallback(url string, forwarded http.Header) *posthaste.Callback {
	return &posthaste.Callback{
		URL:      url,
		Settings: posthaste.Settings{Header: mergeHeader(forwarded, nil)},
		Given:    http.Header{"Upstash-Failure-Callback-Feature-Set": {"LazyFetch,InitialBody"}},
	}
}
