package cli

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"posthaste/internal/app"
	"posthaste/internal/client"
)

// importCommand takes over what another server keeps by name, through its API. The other
// server is only read.
type importCommand struct {
	From      string `env:"-" required:"" placeholder:"URL" help:"URL of the other server, such as that of the hosted service."`
	FromToken string `name:"token" env:"-" required:"" placeholder:"TOKEN" help:"Token for the other server; - asks for it or reads it from standard input, where other users of the machine cannot see it."`
	DryRun    bool   `env:"-" help:"Change nothing; show what would be changed here."`
	DLQ       bool   `name:"dlq" env:"-" help:"Also publish the other server's dead letters here. They stay there."`
	oneOutput

	Profile string `group:"server" env:"POSTHASTE_PROFILE" placeholder:"NAME" help:"Profile with URL and token of the server to import into."`
	URL     string `group:"server" env:"-" placeholder:"URL" help:"URL of the server to import into. Its token is taken from the environment or the profile in use."`
}

func (c *importCommand) into() *connection { return &connection{Profile: c.Profile, URL: c.URL} }

// Validate returns a sentence about the first setting that is wrong.
func (c *importCommand) Validate() error {
	_, err := client.New(client.Options{Server: client.Server{URL: c.From}})
	return errors.Join(err, c.into().Validate())
}

// Run imports.
func (c *importCommand) Run(t terminal) error {
	if c.FromToken == "-" {
		var err error
		if c.FromToken, err = readSecret(t, "token"); err != nil {
			return err
		}
	}
	from, err := client.New(client.Options{
		Server: client.Server{URL: c.From, Token: c.FromToken}, UserAgent: "posthaste/" + app.Version,
	})
	if err != nil {
		return err
	}
	return c.into().call(t, func(ctx context.Context, server *client.Client) error {
		w, err := takeOver(ctx, t, from)
		if err != nil {
			return fmt.Errorf("read from %s: %w", c.From, err)
		}
		steps, err := w.plan(ctx, server, "")
		if err == nil && c.DLQ {
			steps, err = withLetters(ctx, from, steps)
		}
		if err != nil {
			return err
		}
		return carryOut(ctx, t, server, steps, c.DryRun, c.Output)
	})
}

// takeOver reads what a server keeps by name. What cannot be taken over is reported on Err.
func takeOver(ctx context.Context, t terminal, from *client.Client) (w wanted, err error) {
	there, err := existingResources(ctx, from)
	if err != nil {
		return w, err
	}
	for _, name := range slices.Sorted(maps.Keys(there.queues)) {
		q := there.queues[name]
		w.Queues = append(w.Queues, wantedQueue{q.Name, q.Parallelism, &q.Paused})
	}
	for _, name := range slices.Sorted(maps.Keys(there.groups)) {
		g := there.groups[name]
		w.Groups = append(w.Groups, wantedGroup{g.Name, g.Endpoints, flat(g.Headers)})
	}
	for _, id := range slices.Sorted(maps.Keys(there.schedules)) {
		s := there.schedules[id]
		if len(s.CallbackHeader)+len(s.FailureHeader) > 0 {
			_ = writeLine(t.Err, "The settings of the callbacks of schedule %s are not imported.", shown(id))
		}
		w.Schedules = append(w.Schedules, s.wanted())
	}
	return w, nil
}

// wanted returns the schedule as a file would have it.
func (s listedSchedule) wanted() wantedSchedule {
	return wantedSchedule{
		ID: s.ID, Destination: s.Destination, Cron: s.Cron, Method: s.Method, Body: textOf(s.Body, s.BodyBase64), Headers: flat(s.Header),
		Queue: s.Queue, Delay: span(time.Duration(s.Delay) * time.Second), Timeout: span(time.Duration(s.Timeout) * time.Millisecond),
		Retries: s.Retries, RetryDelay: s.RetryDelay, Labels: s.labels(), Callback: s.Callback, FailureCallback: s.FailureCallback,
		FlowKey: s.FlowKey, FlowValue: flowValue(s.Parallelism, s.Rate, s.Period), Paused: &s.Paused,
	}
}

// flat returns headers that have one value each.
func flat(header map[string][]string) map[string]string {
	one := make(map[string]string, len(header))
	for name, values := range header {
		one[name] = strings.Join(values, ", ")
	}
	return one
}

// textOf returns a body that is a text or in base64.
func textOf(text, inBase64 string) string {
	if decoded, err := base64.StdEncoding.DecodeString(inBase64); err == nil && inBase64 != "" {
		return string(decoded)
	}
	return text
}

// flowValue returns limits as publishers give them.
func flowValue(parallelism, rate, period int) string {
	var parts []string
	for _, limit := range []struct {
		name string
		n    int
		unit string
	}{{"parallelism", parallelism, ""}, {"rate", rate, ""}, {"period", period, "s"}} {
		if limit.n != 0 {
			parts = append(parts, limit.name+"="+strconv.Itoa(limit.n)+limit.unit)
		}
	}
	return strings.Join(parts, ",")
}

// deadLetter is what is imported of a dead letter.
type deadLetter struct {
	DLQID string `json:"dlqId"`
	URL   string `json:"url"`
	Max   *int   `json:"maxRetries"`
	listedSchedule
}

// withLetters appends to a plan that the dead letters of a server are published. The id that
// they are published with lets an import that is made again within ten minutes publish none
// twice.
func withLetters(ctx context.Context, from *client.Client, steps []step) ([]step, error) {
	letters := source{server: from, request: client.Request{Path: "/v2/dlq"}, name: "messages"}
	for value, err := range letters.values(ctx) {
		if err != nil {
			return nil, err
		}
		var letter deadLetter
		if err := json.Unmarshal(value, &letter); err != nil {
			return nil, fmt.Errorf("read the response: %w", err)
		}
		w := letter.wanted()
		w.ID, w.Destination, w.Retries = "", letter.URL, letter.Max
		request := w.request()
		request.Path = "/v2/publish/" + letter.URL
		if letter.Queue != "" {
			request.Path = below("/v2/enqueue", letter.Queue) + "/" + letter.URL
			request.Header.Del("Upstash-Queue-Name")
		}
		request.Method = http.MethodPost
		request.Header.Set("Upstash-Deduplication-Id", "import-"+letter.DLQID)
		steps = append(steps, step{"create", "message", "of dead letter " + letter.DLQID, []string{"to " + letter.URL}, []client.Request{request}})
	}
	return steps, nil
}
