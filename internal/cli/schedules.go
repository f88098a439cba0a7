package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"posthaste"
	"posthaste/internal/client"
	"posthaste/internal/cron"
)

// schedulesCommand is about schedules.
type schedulesCommand struct {
	List   listThings[schedules]   `cmd:"" help:"List schedules."`
	Show   showThing[schedules]    `cmd:"" set:"idhelp=ID of a schedule." help:"Show a schedule."`
	Set    setScheduleCommand      `cmd:"" help:"Create a schedule, or replace the one with the same ID."`
	Ticks  ticksCommand            `cmd:"" help:"Show when a cron expression ticks."`
	Pause  changeThings[schedules] `cmd:"" set:"thing=schedule" help:"Pause schedules: ticks during a pause are skipped."`
	Resume changeThings[schedules] `cmd:"" set:"thing=schedule" help:"Resume paused schedules."`
	Delete deleteThings[schedules] `cmd:"" set:"thing=schedule" help:"Delete schedules. Messages already published are still delivered."`
}

type schedules struct{}

// listedSchedule is what is shown of a schedule, and imported.
type listedSchedule struct {
	ID              string              `json:"scheduleId"`
	Cron            string              `json:"cron"`
	Destination     string              `json:"destination"`
	Method          string              `json:"method"`
	Header          map[string][]string `json:"header"`
	Body            string              `json:"body"`
	BodyBase64      string              `json:"bodyBase64"`
	Retries         *int                `json:"retries"`
	RetryDelay      string              `json:"retryDelayExpression"`
	Delay           int                 `json:"delay"`   // seconds
	Timeout         int                 `json:"timeout"` // ms
	Queue           string              `json:"queueName"`
	Callback        string              `json:"callback"`
	FailureCallback string              `json:"failureCallback"`
	Label           string              `json:"label"`
	Labels          []string            `json:"labels"`
	FlowKey         string              `json:"flowControlKey"`
	Parallelism     int                 `json:"parallelism"`
	Rate            int                 `json:"rate"`
	Period          int                 `json:"period"` // seconds
	Paused          bool                `json:"isPaused"`
	CreatedAt       int64               `json:"createdAt"`        // Unix ms
	Last            int64               `json:"lastScheduleTime"` // Unix ms
	Next            int64               `json:"nextScheduleTime"` // Unix ms
	Error           string              `json:"error"`
	CallbackHeader  map[string][]string `json:"callbackHeader"`
	FailureHeader   map[string][]string `json:"failureCallbackHeader"`
}

func (schedules) kind() kind {
	return kind{
		thing: "schedule", command: "schedules", paths: []string{"/v2/schedules"}, list: "schedules", id: "scheduleId",
		table: tableOf(columns{
			{"STATE", 6}, {"NEXT", ofTime}, {"SCHEDULE", 27}, {"CRON", 24}, {name: "DESTINATION"},
		}, func(s listedSchedule) []cell {
			next := at(s.Next)
			if s.Paused {
				next = cell{}
			}
			return []cell{paused(s.Paused), next, {text: s.ID}, {text: s.Cron}, {text: strings.TrimSpace(s.Destination + "  " + s.Error)}}
		}),
		print: fieldsOf(func(s listedSchedule) []field {
			retries, delay, timeout := "", "", ""
			if s.Retries != nil {
				retries = strconv.Itoa(*s.Retries)
			}
			if s.Delay != 0 {
				delay = briefly(time.Duration(s.Delay) * time.Second)
			}
			if s.Timeout != 0 {
				timeout = briefly(time.Duration(s.Timeout) * time.Millisecond)
			}
			return append([]field{
				{"schedule", s.ID}, {"state", paused(s.Paused).text}, {"cron", s.Cron}, {"next", at(s.Next).text}, {"last", at(s.Last).text},
				{"error", s.Error}, {"delivery to", s.Destination}, {"method", s.Method}, {"queue", s.Queue}, {"delay", delay},
				{"retries", retries}, {"retry delay", s.RetryDelay}, {"timeout", timeout}, {"label", strings.Join(s.labels(), ", ")},
				{"flow key", s.FlowKey}, {"callback", s.Callback}, {"on failure", s.FailureCallback}, {"created", at(s.CreatedAt).text},
				{"body", briefBody(s.Body, s.BodyBase64)},
			}, headerFields(s.Header)...)
		}),
	}
}

// labels returns the labels of the schedule, of a server that knows only one too.
func (s listedSchedule) labels() []string {
	if len(s.Labels) == 0 && s.Label != "" {
		return []string{s.Label}
	}
	return s.Labels
}

// setScheduleCommand creates or replaces a schedule.
type setScheduleCommand struct {
	ID          string `arg:"" help:"ID of the schedule to create or replace, such as nightly."`
	Destination string `arg:"" help:"URL of the destination, or name of a URL group."`
	Cron        string `env:"-" required:"" placeholder:"EXPR" help:"Cron expression, such as '0 3 * * *', with CRON_TZ=ZONE in front for a time zone."`
	QueueName   string `header:"Upstash-Queue-Name" env:"-" placeholder:"NAME" help:"Queue to publish through."`
	commonSettings
	callbackSetting
	submission
}

// Validate returns a sentence about the first setting that is wrong.
func (c *setScheduleCommand) Validate() error {
	if err := posthaste.CheckNewName("schedule ID", c.ID); err != nil {
		return fmt.Errorf("%w: the ID of the schedule comes before its destination", err)
	}
	if c.Cron == "" {
		return c.submission.Validate() // that the flag is missing is told by the parser
	}
	return cmp.Or(checkCron(c.Cron), c.checkFlow(), c.submission.Validate())
}

// checkCron returns a sentence about a cron expression that is none, before anything is changed.
func checkCron(text string) error {
	if _, err := cron.Parse(text); err != nil {
		return posthaste.Invalidf("cron %v", err)
	}
	return nil
}

// Run sets the schedule.
func (c *setScheduleCommand) Run(t terminal) error {
	own := struct {
		Cron  string `header:"Upstash-Cron"`
		ID    string `header:"Upstash-Schedule-Id"`
		Queue string `header:"Upstash-Queue-Name"`
	}{c.Cron, c.ID, c.QueueName}
	return c.submit(t, "/v2/schedules/", c.Destination, own, c.commonSettings, c.callbackSetting)
}

// ticksCommand shows the next ticks of a cron expression.
type ticksCommand struct {
	Cron  string `arg:"" help:"Cron expression, with CRON_TZ=ZONE in front for a time zone."`
	Count int    `env:"-" default:"5" placeholder:"N" help:"Number of ticks."`
	oneOutput
	connection
}

// Run prints the ticks, a line each.
func (c *ticksCommand) Run(t terminal) error {
	query := url.Values{"cron": {c.Cron}, "count": {strconv.Itoa(c.Count)}}
	return c.show(t, client.Request{Path: "/v2/ticks", Query: query}, c.Output, func(t terminal, answer json.RawMessage) error {
		var found struct {
			Ticks []int64 `json:"ticks"` // Unix ms
		}
		if err := json.Unmarshal(answer, &found); err != nil {
			return err
		}
		for _, tick := range found.Ticks {
			if err := writeLine(t.Out, "%s", at(tick).text); err != nil {
				return err
			}
		}
		return nil
	})
}
