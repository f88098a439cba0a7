package workflow

import (
	"maps"
	"net/http"
	"strings"

	"posthaste"
	"posthaste/internal/engine"
)

// likeFailed makes a run with a new id and all that a failed one was triggered with,
// but for the overrides (section 7.3). It waits for nobody, and nobody waits for it.
// What is refused is an Error that is not our own.
func (t *tx) likeFailed(failed *posthaste.Run, req *RestartRequest) (*posthaste.Run, error) {
	id, err := t.service.newRunID()
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

// CheckOverrides returns an Error about overrides with which no run could be started:
// one that is over its limit. Overrides that runs do not take are not looked at.
func (s *Service) CheckOverrides(o engine.Overrides) error {
	o.Settings = withOverrides(posthaste.Settings{}, &o.Settings)
	return s.options.Limits.CheckOverrides(o, s.now())
}

// withOverrides returns settings with those overrides that a run takes (section 7.2),
// callbacks left as they were. Labels are changed where deliveries tell them, too.
func withOverrides(s posthaste.Settings, o *posthaste.Settings) posthaste.Settings {
	s = s.With(posthaste.Settings{Retries: o.Retries, RetryDelay: o.RetryDelay, FlowControl: o.FlowControl, Labels: o.Labels})
	if len(o.Labels) > 0 {
		s.Header = withHeader(s.Header, headerLabel, joinLabels(o.Labels))
	}
	return s
}

// overriddenBy returns which settings of a run are overridden.
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

// overridesOf returns what overriddenBy was given for a run.
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

// overridden returns the settings of a delivery of a run with what was overridden.
func overridden(run *posthaste.Run, own posthaste.Settings) posthaste.Settings {
	own = withOverrides(own, overridesOf(run))
	own.FailureCallback = failureCallbackOf(run, own.FailureCallback)
	return own
}

// ofRun returns a callback of a failed run, or of a message of it, as one of the run in
// its place; nil if there is none.
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

// failureCallbackOf is ofRun for a failure callback, with what was overridden.
func failureCallbackOf(run *posthaste.Run, callback *posthaste.Callback) *posthaste.Callback {
	return withFailureOverrides(run, callback, overridesOf(run))
}

// withFailureOverrides is ofRun for a failure callback, with the overrides that it
// takes: another URL, and the labels where it tells them.
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

// OwnFailureCallback is the failure callback of a run whose trigger left the protocol
// to the server: the forwarded headers go to it too.
func OwnFailureCallback(url string, forwarded http.Header) *posthaste.Callback {
	return &posthaste.Callback{
		URL:      url,
		Settings: posthaste.Settings{Header: mergeHeader(forwarded, nil)},
		Given:    http.Header{"Upstash-Failure-Callback-Feature-Set": {"LazyFetch,InitialBody"}},
	}
}
