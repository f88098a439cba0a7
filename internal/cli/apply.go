package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"posthaste"
	"posthaste/internal/client"
)

// applyCommand makes what the API keeps by name as a file has it.
type applyCommand struct {
	File  string `short:"f" env:"-" required:"" placeholder:"FILE" help:"YAML file with the lists queues, groups, schedules and flow; - reads standard input."`
	Plan  bool   `env:"-" aliases:"dry-run" help:"Change nothing; show what would be changed."`
	Prune string `env:"-" placeholder:"LABEL" help:"Also delete schedules with this label that are not in the file. Queues, URL groups and flow-control keys have no labels and are never deleted."`
	confirmation
	oneOutput
	connection
}

// wanted is what a file wants there to be.
type wanted struct {
	Queues    []wantedQueue    `yaml:"queues"`
	Groups    []wantedGroup    `yaml:"groups"`
	Schedules []wantedSchedule `yaml:"schedules"`
	Flow      []wantedFlowKey  `yaml:"flow"`
}

// What a file does not say of a thing stays as it is.
type (
	wantedQueue struct {
		Name        string `yaml:"name"`
		Parallelism int    `yaml:"parallelism"`
		Paused      *bool  `yaml:"paused"`
	}
	wantedGroup struct {
		Name      string            `yaml:"name"`
		Endpoints []endpoint        `yaml:"endpoints"` // all that there are to be
		Headers   map[string]string `yaml:"headers"`   // default settings, such as Upstash-Retries
	}
	wantedFlowKey struct {
		Key         string `yaml:"key"`
		Parallelism int    `yaml:"parallelism"`
		Rate        int    `yaml:"rate"`
		Period      span   `yaml:"period"`
		Paused      *bool  `yaml:"paused"`
	}
	wantedSchedule struct {
		ID              string            `yaml:"id"`
		Destination     string            `yaml:"destination"`
		Cron            string            `yaml:"cron"`
		Method          string            `yaml:"method"`
		Body            string            `yaml:"body"`
		Headers         map[string]string `yaml:"headers"` // of the delivery
		Queue           string            `yaml:"queue"`
		Delay           span              `yaml:"delay"`
		Timeout         span              `yaml:"timeout"`
		Retries         *int              `yaml:"retries"`
		RetryDelay      string            `yaml:"retryDelay"`
		Labels          []string          `yaml:"labels"`
		Callback        string            `yaml:"callback"`
		FailureCallback string            `yaml:"failureCallback"`
		FlowKey         string            `yaml:"flowControlKey"`
		FlowValue       string            `yaml:"flowControlValue"`
		Paused          *bool             `yaml:"paused"`
	}
)

// readWanted reads a file. A name it does not know must not pass for one that is left out.
func readWanted(text []byte) (w wanted, err error) {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&w); err != nil && !errors.Is(err, io.EOF) {
		return w, posthaste.Invalidf("file: %s", strings.Join(yamlFaults(text, err), "; "))
	}
	const flowKeyThing = "flow-control key"
	names := map[string]bool{}
	check := func(thing, name string, wrong bool, what string) error {
		switch {
		case name == "":
			return posthaste.Invalidf("file: a %s has no name", thing)
		case names[thing+name]:
			return posthaste.Invalidf("file: %s %q is there twice", thing, name)
		case wrong:
			return posthaste.Invalidf("file: %s %q has no %s", thing, name, what)
		}
		names[thing+name] = true
		if thing == flowKeyThing { // any text is a key
			return nil
		}
		if err := posthaste.CheckNewName(thing+" name", name); err != nil { // here, so that a plan says it, too
			return posthaste.Invalidf("file: %v", err)
		}
		return nil
	}
	for _, q := range w.Queues {
		err = errors.Join(err, check("queue", q.Name, false, ""))
	}
	for _, g := range w.Groups {
		err = errors.Join(err, check("URL group", g.Name, len(g.Endpoints) == 0, "endpoints"))
	}
	for _, s := range w.Schedules {
		err = errors.Join(err, check("schedule", s.ID, s.Destination == "" || s.Cron == "", "destination or no cron"))
		if fault := checkCron(s.Cron); s.Cron != "" && fault != nil {
			err = errors.Join(err, posthaste.Invalidf("file: schedule %q: %v", s.ID, fault))
		}
	}
	for _, k := range w.Flow {
		err = errors.Join(err, check(flowKeyThing, k.Key, false, ""))
	}
	return w, err
}

// step is one change of a plan.
type step struct {
	Action string   `json:"action"` // create, change or delete
	Thing  string   `json:"thing"`
	Name   string   `json:"name"`
	Diff   []string `json:"diff"`

	requests []client.Request
}

// write writes the step as a line, and one for each difference.
func (s step) write(t terminal) error {
	sign := map[string]string{"create": "+", "change": "~", "delete": "-"}[s.Action]
	line := fmt.Sprintf("%s %s %s", sign, s.Thing, s.Name)
	if hasColours(t.Out) {
		line = map[string]colour{"create": good, "change": waiting, "delete": bad}[s.Action].of(line)
	}
	err := writeLine(t.Out, "%s", line)
	for _, difference := range s.Diff {
		err = errors.Join(err, writeLine(t.Out, "    %s", shown(difference)))
	}
	return err
}

// comparison finds how a thing differs from what is wanted of it.
type comparison struct{ diff []string }

// text compares a value that is wanted, unless it is "".
func (c *comparison) text(name, is, wanted string) {
	switch {
	case wanted == "" || is == wanted:
	case is == "":
		c.diff = append(c.diff, name+": "+brief(wanted))
	default:
		c.diff = append(c.diff, name+": "+brief(is)+" → "+brief(wanted))
	}
}

func (c *comparison) number(name string, is, wanted int) {
	if wanted == 0 {
		return
	}
	text := ""
	if is != 0 {
		text = strconv.Itoa(is)
	}
	c.text(name, text, strconv.Itoa(wanted))
}

func (c *comparison) paused(is bool, wanted *bool) {
	if wanted != nil {
		c.text("state", paused(is).text, paused(*wanted).text)
	}
}

// existing are the things of a kind that a server has, by their names.
func existing[T any](ctx context.Context, server *client.Client, k kind) (map[string]T, error) {
	all, err := k.all(ctx, server, nil)
	if err != nil {
		return nil, fmt.Errorf("list %ss: %w", k.thing, err)
	}
	found := make(map[string]T, len(all))
	for _, one := range all {
		var thing T
		if err := json.Unmarshal(one, &thing); err != nil {
			return nil, fmt.Errorf("read the response: %w", err)
		}
		found[textIn(one, k.id)] = thing
	}
	return found, nil
}

// resources are what both a file and another server can give, by their names.
type resources struct {
	queues    map[string]listedQueue
	groups    map[string]listedGroup
	schedules map[string]listedSchedule
}

// existingResources are those that a server has.
func existingResources(ctx context.Context, server *client.Client) (r resources, err error) {
	if r.queues, err = existing[listedQueue](ctx, server, queues{}.kind()); err != nil {
		return r, err
	}
	if r.groups, err = existing[listedGroup](ctx, server, urlGroups{}.kind()); err != nil {
		return r, err
	}
	r.schedules, err = existing[listedSchedule](ctx, server, schedules{}.kind())
	return r, err
}

// plan compares what is wanted with what a server has.
func (w wanted) plan(ctx context.Context, server *client.Client, prune string) ([]step, error) {
	there, err := existingResources(ctx, server)
	if err != nil {
		return nil, err
	}
	keysThere, err := existing[listedFlowKey](ctx, server, flowKeys{}.kind())
	if err != nil {
		return nil, err
	}
	var steps []step
	add := func(thing, name string, is bool, diff []string, requests []client.Request) {
		action := "create"
		if is {
			action = "change"
		}
		if len(diff) > 0 || !is {
			steps = append(steps, step{action, thing, name, append([]string{}, diff...), requests})
		}
	}
	for _, q := range w.Queues {
		old, is := there.queues[q.Name]
		diff, requests := q.against(old)
		add("queue", q.Name, is, diff, requests)
	}
	for _, k := range w.Flow {
		old, is := keysThere[k.Key]
		diff, requests := k.against(old)
		add("flow-control key", k.Key, is, diff, requests)
	}
	for _, g := range w.Groups {
		old, is := there.groups[g.Name]
		diff, requests := g.against(old)
		add("URL group", g.Name, is, diff, requests)
	}
	for _, s := range w.Schedules {
		old, is := there.schedules[s.ID]
		diff, requests := s.against(old)
		add("schedule", s.ID, is, diff, requests)
		delete(there.schedules, s.ID)
	}
	for _, id := range slices.Sorted(maps.Keys(there.schedules)) {
		if prune != "" && slices.Contains(there.schedules[id].labels(), prune) {
			steps = append(steps, step{"delete", "schedule", id, []string{},
				[]client.Request{{Method: http.MethodDelete, Path: below("/v2/schedules", id)}}})
		}
	}
	return steps, nil
}

// pauseRequest pauses or resumes a thing if that is wanted.
func pauseRequest(path, name string, wanted *bool) []client.Request {
	switch {
	case wanted == nil:
		return nil
	case *wanted:
		return []client.Request{{Method: http.MethodPost, Path: below(path, name) + "/pause"}}
	default:
		return []client.Request{{Method: http.MethodPost, Path: below(path, name) + "/resume"}}
	}
}

// against returns how a queue differs, and the requests that change it.
func (q wantedQueue) against(there listedQueue) ([]string, []client.Request) {
	var c comparison
	c.number("parallelism", there.Parallelism, q.Parallelism)
	c.paused(there.Paused, q.Paused)
	return c.diff, append([]client.Request{putQueue(q.Name, q.Parallelism)}, pauseRequest("/v2/queues", q.Name, q.Paused)...)
}

// against returns how a flow-control key differs, and the requests that change it.
func (k wantedFlowKey) against(there listedFlowKey) (diff []string, requests []client.Request) {
	var c comparison
	if !there.PinnedParallelism {
		there.ParallelismMax = 0
	}
	if !there.PinnedRate {
		there.RateMax, there.RatePeriod = 0, 0
	}
	c.number("parallelism", there.ParallelismMax, k.Parallelism)
	c.number("rate", there.RateMax, k.Rate)
	c.number("period", there.RatePeriod, int(time.Duration(k.Period)/time.Second))
	if len(c.diff) > 0 {
		requests = append(requests, pinFlowKey(k.Key, k.Parallelism, k.Rate, time.Duration(k.Period)))
	}
	c.paused(there.Paused, k.Paused)
	return c.diff, append(requests, pauseRequest("/v2/flowControl", k.Key, k.Paused)...)
}

// against returns how a URL group differs, and the requests that change it. Endpoints are added
// before others go, because a group without any is deleted. One that has the name or the URL of
// an earlier one takes its place by itself.
func (g wantedGroup) against(there listedGroup) (diff []string, requests []client.Request) {
	added, gone := []endpoint{}, []endpoint{}
	for _, e := range g.Endpoints {
		if !slices.ContainsFunc(there.Endpoints, func(is endpoint) bool { return is.URL == e.URL && (is.Name == e.Name || e.Name == "") }) {
			added = append(added, e)
			diff = append(diff, strings.TrimSpace("+ endpoint "+e.URL+" "+e.Name))
		}
	}
	for _, is := range there.Endpoints {
		if !slices.ContainsFunc(g.Endpoints, func(e endpoint) bool { return is.URL == e.URL || is.Name == e.Name && e.Name != "" }) {
			gone = append(gone, endpoint{URL: is.URL})
			diff = append(diff, strings.TrimSpace("- endpoint "+is.URL+" "+is.Name))
		}
	}
	if len(added) > 0 {
		requests = append(requests, changeEndpoints(http.MethodPost, g.Name, added))
	}
	if len(gone) > 0 {
		requests = append(requests, changeEndpoints(http.MethodDelete, g.Name, gone))
	}
	var c comparison
	header := http.Header{}
	for _, name := range slices.Sorted(maps.Keys(g.Headers)) {
		c.text("header "+name, strings.Join(there.Headers[http.CanonicalHeaderKey(name)], ", "), g.Headers[name])
		header.Set(name, g.Headers[name])
	}
	if len(c.diff) > 0 {
		requests = append(requests, patchGroup(g.Name, header))
	}
	return append(diff, c.diff...), requests
}

// against returns how a schedule differs, and the requests that replace it. A schedule that
// was replaced is not paused.
func (s wantedSchedule) against(there listedSchedule) ([]string, []client.Request) {
	var c comparison
	c.text("destination", there.Destination, s.Destination)
	c.text("cron", there.Cron, s.Cron)
	c.text("method", there.Method, s.Method)
	c.text("body", textOf(there.Body, there.BodyBase64), s.Body)
	c.text("queue", there.Queue, s.Queue)
	c.number("delay in seconds", there.Delay, int(time.Duration(s.Delay)/time.Second))
	c.number("timeout in milliseconds", there.Timeout, int(time.Duration(s.Timeout)/time.Millisecond))
	if s.Retries != nil {
		is := ""
		if there.Retries != nil {
			is = strconv.Itoa(*there.Retries)
		}
		c.text("retries", is, strconv.Itoa(*s.Retries))
	}
	c.text("retry delay", there.RetryDelay, s.RetryDelay)
	c.text("labels", strings.Join(there.labels(), ", "), strings.Join(s.Labels, ", "))
	c.text("callback", there.Callback, s.Callback)
	c.text("failure callback", there.FailureCallback, s.FailureCallback)
	c.text("flow-control key", there.FlowKey, s.FlowKey)
	for _, name := range slices.Sorted(maps.Keys(s.Headers)) {
		c.text("header "+name, strings.Join(there.Header[http.CanonicalHeaderKey(name)], ", "), s.Headers[name])
	}
	replaced := len(c.diff) > 0
	c.paused(there.Paused, s.Paused)
	var requests []client.Request
	wantsPause := s.Paused
	if replaced {
		requests = append(requests, s.request())
		if wantsPause == nil && there.Paused {
			wantsPause = &there.Paused
		}
	}
	return c.diff, append(requests, pauseRequest("/v2/schedules", s.ID, wantsPause)...)
}

// request returns the request that creates or replaces the schedule.
func (s wantedSchedule) request() client.Request {
	header := http.Header{}
	set := func(name, value string) {
		if value != "" {
			header.Set(name, value)
		}
	}
	set("Upstash-Schedule-Id", s.ID)
	set("Upstash-Cron", s.Cron)
	set("Upstash-Method", s.Method)
	set("Upstash-Queue-Name", s.Queue)
	set("Upstash-Retry-Delay", s.RetryDelay)
	set("Upstash-Label", strings.Join(s.Labels, ","))
	set("Upstash-Callback", s.Callback)
	set("Upstash-Failure-Callback", s.FailureCallback)
	set("Upstash-Flow-Control-Key", s.FlowKey)
	set("Upstash-Flow-Control-Value", s.FlowValue)
	if s.Delay != 0 {
		set("Upstash-Delay", strconv.Itoa(int(time.Duration(s.Delay)/time.Second))+"s")
	}
	if s.Timeout != 0 {
		set("Upstash-Timeout", strconv.Itoa(int(time.Duration(s.Timeout)/time.Second))+"s")
	}
	if s.Retries != nil {
		set("Upstash-Retries", strconv.Itoa(*s.Retries))
	}
	lines := make([]string, 0, len(s.Headers))
	for name, value := range s.Headers {
		lines = append(lines, name+": "+value)
	}
	(&headerFlags{lines}).forward(header)
	return client.Request{Method: http.MethodPost, Path: "/v2/schedules/" + s.Destination, Header: header, Body: []byte(s.Body)}
}

// Run compares the file with the server, and changes what differs.
func (c *applyCommand) Run(t terminal) error {
	text, err := readAll(c.File)
	if err != nil {
		return fmt.Errorf("file: %w", err)
	}
	w, err := readWanted(text)
	if err != nil {
		return err
	}
	return c.call(t, func(ctx context.Context, server *client.Client) error {
		steps, err := w.plan(ctx, server, c.Prune)
		if err != nil {
			return err
		}
		if !c.Plan {
			if err := c.askToDelete(t, steps); err != nil {
				return err
			}
		}
		return carryOut(ctx, t, server, steps, c.Plan, c.Output)
	})
}

// askToDelete asks before something is deleted.
func (c *applyCommand) askToDelete(t terminal, steps []step) error {
	n := 0
	for _, s := range steps {
		if s.Action == "delete" {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	return c.ask(t, "delete "+counted(n, "schedule"))
}

// carryOut makes the changes of a plan one by one, or only writes them. It ends with the first
// that fails: what comes before it is done.
func carryOut(ctx context.Context, t terminal, server *client.Client, steps []step, onlyPlan bool, output string) (err error) {
	made := []step{}
	for _, s := range steps {
		for _, request := range s.requests {
			if !onlyPlan && err == nil {
				err = server.Do(ctx, request, nil)
			}
		}
		if err != nil {
			err = fmt.Errorf("%s %s: %w", s.Thing, s.Name, err)
			break
		}
		made = append(made, s)
		if output != "json" {
			if err := s.write(t); err != nil {
				return err
			}
		}
	}
	if output == "json" {
		return errors.Join(writeJSON(t.Out, map[string]any{"plan": onlyPlan, "changes": made}), err)
	}
	if err == nil {
		err = writeLine(t.Out, "%s", summaryOf(made, onlyPlan))
	}
	return err
}

// summaryOf says how many changes there are.
func summaryOf(steps []step, onlyPlan bool) string {
	if len(steps) == 0 {
		return "nothing differs"
	}
	counts := map[string]int{}
	for _, s := range steps {
		counts[s.Action]++
	}
	would := ""
	if onlyPlan {
		would = "would be "
	}
	var parts []string
	for _, action := range []string{"create", "change", "delete"} {
		if n := counts[action]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s%sd", n, would, action))
		}
	}
	return strings.Join(parts, ", ")
}
