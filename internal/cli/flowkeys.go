package cli

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"posthaste"
	"posthaste/internal/client"
)

// flowCommand is about flow-control keys.
type flowCommand struct {
	List      listThings[flowKeys]   `cmd:"" help:"List flow-control keys and their use."`
	Show      showThing[flowKeys]    `cmd:"" set:"idhelp=Flow-control key." help:"Show a flow-control key."`
	Set       setFlowCommand         `cmd:"" help:"Pin the limits of a key, overriding those of messages."`
	Unpin     changeThings[flowKeys] `cmd:"" set:"thing=flow-control key" help:"Let messages set the limits of keys again."`
	Pause     changeThings[flowKeys] `cmd:"" set:"thing=flow-control key" help:"Pause keys: their messages are accepted and wait."`
	Resume    changeThings[flowKeys] `cmd:"" set:"thing=flow-control key" help:"Resume paused keys."`
	ResetRate changeThings[flowKeys] `cmd:"" set:"thing=flow-control key" help:"Start a new rate period of keys."`
	Delete    deleteThings[flowKeys] `cmd:"" set:"thing=flow-control key" help:"Delete keys that no message uses."`
}

type flowKeys struct {
	Search string `param:"search" env:"-" placeholder:"TEXT" help:"Only keys that contain this text."`
}

// listedFlowKey is what is shown of a flow-control key.
type listedFlowKey struct {
	Key               string `json:"flowControlKey"`
	Waiting           int    `json:"waitListSize"`
	ParallelismMax    int    `json:"parallelismMax"`
	ParallelismCount  int    `json:"parallelismCount"`
	RateMax           int    `json:"rateMax"`
	RateCount         int    `json:"rateCount"`
	RatePeriod        int    `json:"ratePeriod"` // seconds
	PinnedParallelism bool   `json:"isPinnedParallelism"`
	PinnedRate        bool   `json:"isPinnedRate"`
	Paused            bool   `json:"isPaused"`
}

func (flowKeys) kind() kind {
	return kind{
		thing: "flow-control key", command: "flow", paths: []string{"/v2/flowControl"}, list: "flowControlKeys", id: "flowControlKey",
		table: tableOf(columns{{"STATE", 6}, {"WAITING", 8}, {"PARALLEL", 12}, {"RATE", 16}, {name: "KEY"}}, func(k listedFlowKey) []cell {
			return []cell{paused(k.Paused), number(k.Waiting), {text: k.parallelism()}, {text: k.rate()}, {text: k.Key}}
		}),
		print: fieldsOf(func(k listedFlowKey) []field {
			return []field{
				{"key", k.Key}, {"state", paused(k.Paused).text}, {"waiting", strconv.Itoa(k.Waiting)},
				{"parallelism", k.parallelism() + pinned(k.PinnedParallelism)}, {"rate", k.rate() + pinned(k.PinnedRate)},
			}
		}),
	}
}

// parallelism returns how many attempts are in flight, and how many may be.
func (k listedFlowKey) parallelism() string {
	if k.ParallelismMax == 0 {
		return strconv.Itoa(k.ParallelismCount)
	}
	return fmt.Sprintf("%d of %d", k.ParallelismCount, k.ParallelismMax)
}

// rate returns how many attempts have begun in a period, and how many may.
func (k listedFlowKey) rate() string {
	if k.RateMax == 0 {
		return "no limit"
	}
	return fmt.Sprintf("%d of %d per %s", k.RateCount, k.RateMax, briefly(time.Duration(k.RatePeriod)*time.Second))
}

func pinned(is bool) string {
	if is {
		return ", pinned"
	}
	return ""
}

// setFlowCommand fixes the limits of a key.
type setFlowCommand struct {
	Key         string `arg:"" help:"Flow-control key."`
	Parallelism *int   `env:"-" placeholder:"N" help:"Attempts at once."`
	Rate        *int   `env:"-" placeholder:"N" help:"Attempts that may start in each period."`
	Period      *span  `env:"-" placeholder:"SPAN" help:"Length of a period, such as 10s or 1m. Default: 1s."`
	oneOutput
	connection
}

// Validate returns a sentence about the first setting that is wrong.
func (c *setFlowCommand) Validate() error {
	switch {
	case c.Parallelism == nil && c.Rate == nil:
		return posthaste.Invalidf("there is no limit to set: give --parallelism or --rate")
	case c.Period != nil && c.Rate == nil:
		return posthaste.Invalidf("period %s is that of a rate: give --rate, too", c.Period)
	case c.Period != nil && (*c.Period < span(time.Second) || time.Duration(*c.Period)%time.Second != 0):
		return posthaste.Invalidf("period %s is not accepted: give whole seconds, 1s or more", c.Period)
	}
	return cmp.Or(atLeastOne("parallelism", c.Parallelism), atLeastOne("rate", c.Rate), c.connection.Validate())
}

// Run fixes the limits.
func (c *setFlowCommand) Run(t terminal) error {
	return c.setThing(t, c.Output, "flow-control key", c.Key, pinFlowKey(c.Key, value(c.Parallelism), value(c.Rate), time.Duration(value(c.Period))))
}

// atLeastOne returns an error if a limit is given that lets nothing through.
func atLeastOne(name string, limit *int) error {
	if limit != nil && *limit < 1 {
		return posthaste.Invalidf("--%s %d is not accepted: give 1 or more, or use pause", name, *limit)
	}
	return nil
}

// value returns what a flag was given, and zero if it was not.
func value[T any](flag *T) (v T) {
	if flag != nil {
		v = *flag
	}
	return v
}

func pinFlowKey(key string, parallelism, rate int, period time.Duration) client.Request {
	query := url.Values{}
	for name, n := range map[string]int{"parallelism": parallelism, "rate": rate, "period": int(period / time.Second)} {
		if n != 0 {
			query.Set(name, strconv.Itoa(n))
		}
	}
	return client.Request{Method: http.MethodPost, Path: below("/v2/flowControl", key) + "/pin", Query: query}
}
