package api

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"time"

	"posthaste"
	"posthaste/internal/api/wire"
	"posthaste/internal/engine"
	"posthaste/internal/store"
)

// FlowKeys manages flow-control keys.
type FlowKeys interface {
	FlowKey(ctx context.Context, user, key string) (store.FlowStatus, error)
	// FlowKeys returns a part of the keys that contain the text.
	FlowKeys(ctx context.Context, user, contains, after string) (store.List[store.FlowStatus], error)

	// PinFlowKey and PauseFlowKey create the key if needed; the others ignore an unknown one.
	PinFlowKey(ctx context.Context, user, key string, pin engine.Pin) error
	UnpinFlowKey(ctx context.Context, user, key string, parallelism, rate bool) error
	PauseFlowKey(ctx context.Context, user, key string) error
	ResumeFlowKey(ctx context.Context, user, key string) error
	ResetFlowRate(ctx context.Context, user, key string) error
	// DeleteFlowKey rejects a key in use, and returns store.ErrNotFound for an unknown one.
	DeleteFlowKey(ctx context.Context, user, key string) error

	// GlobalParallelism returns the user's attempts in flight and the maximum of all users.
	GlobalParallelism(ctx context.Context, user string) (inFlight, most int, err error)
}

// flowKeyView is a flow-control key as shown (contract, messages 2.11). SDKs need all members; an
// unset limit is 0.
type flowKeyView struct {
	FlowControlKey      string `json:"flowControlKey"`
	WaitListSize        int    `json:"waitListSize"`
	ParallelismMax      int    `json:"parallelismMax"`
	ParallelismCount    int    `json:"parallelismCount"`
	RateMax             int    `json:"rateMax"`
	RateCount           int    `json:"rateCount"`
	RatePeriod          int64  `json:"ratePeriod"`      // seconds
	RatePeriodStart     int64  `json:"ratePeriodStart"` // Unix seconds
	IsPinnedParallelism bool   `json:"isPinnedParallelism"`
	IsPinnedRate        bool   `json:"isPinnedRate"`
	IsPaused            bool   `json:"isPaused"`
}

func newFlowKeyView(k store.FlowStatus) flowKeyView {
	view := flowKeyView{
		FlowControlKey:      k.Key,
		WaitListSize:        k.Waiting,
		ParallelismMax:      k.Parallelism,
		ParallelismCount:    k.InFlight,
		RateMax:             k.Rate,
		IsPinnedParallelism: k.PinnedParallelism,
		IsPinnedRate:        k.PinnedRate,
		IsPaused:            k.Paused,
	}
	if k.Rate > 0 {
		view.RateCount = k.WindowCount
		view.RatePeriod = int64(periodOf(k.FlowLimit) / time.Second)
		if !k.WindowStartedAt.IsZero() {
			view.RatePeriodStart = k.WindowStartedAt.Unix()
		}
	}
	return view
}

func (a *api) listFlowKeys(r *request, params url.Values) (answer, error) {
	if err := wire.CheckNames(params, "search"); err != nil {
		return answer{}, err
	}
	search, err := wire.One(params, "search")
	if err != nil {
		return answer{}, err
	}
	return newList(r, newFlowKeyView, store.FlowKeySize, func(ctx context.Context, after string) (store.List[store.FlowStatus], error) {
		return a.options.Engine.FlowKeys(ctx, r.user, search, after)
	})
}

// getFlowKey shows the key in the rest of the path, in which SDKs do not escape slashes.
func (a *api) getFlowKey(r *request) (answer, error) {
	key := r.pathText("*")
	status, err := a.options.Engine.FlowKey(r.Context(), r.user, key)
	if err != nil {
		return answer{}, orNotFound(err, "flow-control key", key)
	}
	return ok(newFlowKeyView(status)), nil
}

func (a *api) deleteFlowKey(r *request) (answer, error) {
	key := r.pathText("*")
	err := a.options.Engine.DeleteFlowKey(r.Context(), r.user, key)
	return done, orNotFound(err, "flow-control key", key)
}

// flowKeyChanges are the changes of a key by the last segment of the path, with their parameters.
// reset resets the rate only: attempts in flight are counted, so that count is never wrong.
var flowKeyChanges = map[string]struct {
	do    func(a *api, r *request, key string, params url.Values) error
	takes []string
}{
	"pause":     {do: simple(FlowKeys.PauseFlowKey)},
	"resume":    {do: simple(FlowKeys.ResumeFlowKey)},
	"pin":       {(*api).pinFlowKey, []string{"parallelism", "rate", "period"}},
	"unpin":     {(*api).unpinFlowKey, []string{"parallelism", "rate"}},
	"resetRate": {do: simple(FlowKeys.ResetFlowRate)},
	"reset":     {do: simple(FlowKeys.ResetFlowRate)},
}

// changeFlowKey executes the change in the path.
func (a *api) changeFlowKey(r *request) (answer, error) {
	text := strings.TrimSuffix(r.pathText("*"), "/")
	slash := strings.LastIndexByte(text, '/')
	key, action := text[:max(slash, 0)], text[slash+1:]
	change, known := flowKeyChanges[action]
	if !known {
		return answer{}, posthaste.Errorf(posthaste.CodeNotFound,
			"%.100q is not an action on a flow-control key: pause, resume, pin, unpin, resetRate and reset are", action)
	}
	if key == "" {
		return answer{}, posthaste.Invalidf("the flow-control key is empty, write POST /v2/flowControl/<key>/%s", action)
	}
	if err := posthaste.CheckFlowKey("flow-control key", key); err != nil {
		return answer{}, err
	}
	params, _, err := r.callParameters("")
	if err != nil {
		return answer{}, err
	}
	if err := wire.CheckNames(params, change.takes...); err != nil {
		return answer{}, err
	}
	return done, change.do(a, r, key, params)
}

// simple is a change without parameters.
func simple(change func(keys FlowKeys, ctx context.Context, user, key string) error) func(*api, *request, string, url.Values) error {
	return func(a *api, r *request, key string, _ url.Values) error {
		return change(a.options.Engine, r.Context(), r.user, key)
	}
}

// pinFlowKey pins limits. Rate or period alone leaves the other.
func (a *api) pinFlowKey(r *request, key string, params url.Values) error {
	limit, err := parsePin(params)
	if err != nil {
		return err
	}
	var pin engine.Pin
	if limit.Parallelism > 0 {
		pin.Parallelism = &limit.Parallelism
	}
	if limit.Rate > 0 || limit.Period > 0 {
		if err := a.completeRate(r, key, &limit); err != nil {
			return err
		}
		pin.Rate = &limit
	}
	return a.options.Engine.PinFlowKey(r.Context(), r.user, key, pin)
}

// completeRate sets the missing half of a rate from the key.
func (a *api) completeRate(r *request, key string, limit *posthaste.FlowLimit) error {
	present, err := a.options.Engine.FlowKey(r.Context(), r.user, key)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	if limit.Period == 0 {
		limit.Period = present.Period
	}
	if limit.Rate == 0 {
		limit.Rate = present.Rate
	}
	if limit.Rate == 0 {
		return posthaste.Invalidf("period needs a rate: the flow-control key %.100q has none yet, give rate too", key)
	}
	return nil
}

// parsePin reads the limits to pin, at least one.
func parsePin(params url.Values) (posthaste.FlowLimit, error) {
	var limit posthaste.FlowLimit
	var seconds int
	for _, part := range []struct {
		name string
		most int
		into *int
	}{
		{"parallelism", wire.MaxCount, &limit.Parallelism},
		{"rate", wire.MaxCount, &limit.Rate},
		{"period", int(wire.MaxFlowPeriod / time.Second), &seconds},
	} {
		if !params.Has(part.name) {
			continue
		}
		text, err := wire.One(params, part.name)
		if err != nil {
			return limit, err
		}
		n, ok := wire.ParseCount(text)
		if !ok || n < 1 || n > part.most {
			return limit, posthaste.Invalidf("%s %.100q is not a whole number from 1 to %d", part.name, text, part.most)
		}
		*part.into = n
	}
	limit.Period = time.Duration(seconds) * time.Second
	if limit == (posthaste.FlowLimit{}) {
		return limit, posthaste.Invalidf("nothing to pin is given: parallelism, rate and period are accepted")
	}
	return limit, nil
}

func (a *api) unpinFlowKey(r *request, key string, params url.Values) error {
	parallelism, err := wire.Flag(params, "parallelism")
	if err != nil {
		return err
	}
	rate, err := wire.Flag(params, "rate")
	if err != nil {
		return err
	}
	return a.options.Engine.UnpinFlowKey(r.Context(), r.user, key, parallelism, rate)
}

// getGlobalParallelism shows the attempts in flight and their limit.
func (a *api) getGlobalParallelism(r *request) (answer, error) {
	inFlight, most, err := a.options.Engine.GlobalParallelism(r.Context(), r.user)
	return ok(struct {
		ParallelismMax   int `json:"parallelismMax"`
		ParallelismCount int `json:"parallelismCount"`
	}{most, inFlight}), err
}
