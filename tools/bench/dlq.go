package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"time"
)

// dlqScenario compares Posthaste with itself: a server with a thousand dead letters of
// messages and as many of runs, and one with many more. Both are asked for the same
// pages in turn, and delete, retry and restart as many. In the end both delete nine tenths
// of what they have, and are asked for the same pages again: what was deleted must not
// cost what is listed.
type dlqScenario struct{}

func (dlqScenario) name() string { return "dlq" }

const (
	dlqPage      = 10  // dead letters of a page: a thousand have as many of each pair
	dlqLargePage = 100 // of one that is deleted
	dlqChanges   = 5   // pages that a round changes in each way
	dlqSpan      = time.Hour
)

// dlqLists are the lists that are asked for, by their paths. Where names are drawn, the
// first is the most frequent one.
var dlqLists = []struct{ name, path, params string }{
	{"messages", "/v2/dlq", ""},
	{"messages by url", "/v2/dlq", "url=DESTINATION/host-0"},
	{"messages by label", "/v2/dlq", "label=label-0"},
	{"messages by queue", "/v2/dlq", "queueName=queue-0"},
	{"messages by group", "/v2/dlq", "topicName=group-0"},
	{"messages by schedule", "/v2/dlq", "scheduleId=schedule-0"},
	{"messages by flow-control key", "/v2/dlq", "flowControlKey=key-0"},
	{"messages by caller", "/v2/dlq", "callerIp=10.0.0.7"},
	{"messages by status", "/v2/dlq", "responseStatus=502"},
	{"messages by url and label", "/v2/dlq", "url=DESTINATION/host-0&label=label-0"},
	{"messages by label and status", "/v2/dlq", "label=label-0&responseStatus=502"},
	{"messages by queue and url", "/v2/dlq", "queueName=queue-0&url=DESTINATION/host-0"},
	{"messages by rare label", "/v2/dlq", "label=rare"},
	{"runs", "/v2/workflows/dlq", ""},
	{"runs by url", "/v2/workflows/dlq", "workflowUrl=DESTINATION/host-0"},
	{"runs by label", "/v2/workflows/dlq", "label=label-0"},
	{"runs by caller", "/v2/workflows/dlq", "callerIp=10.0.0.7"},
	{"runs by status", "/v2/workflows/dlq", "responseStatus=502"},
	{"runs by url and label", "/v2/workflows/dlq", "workflowUrl=DESTINATION/host-0&label=label-0"},
	{"runs by label and status", "/v2/workflows/dlq", "label=label-0&responseStatus=502"},
}

// dlqAction is something that is done to a page, the oldest dead letters first.
type dlqAction struct {
	name, method, path, params string
	count                      int // dead letters of the page
}

// deliveries returns how many attempts to deliver an action leads to: the destination
// takes each message.
func (a *dlqAction) deliveries() int {
	if a.method == http.MethodDelete {
		return 0
	}
	return a.count
}

var dlqActions = []dlqAction{
	{"delete messages", http.MethodDelete, "/v2/dlq", "", dlqPage},
	{"delete messages by label", http.MethodDelete, "/v2/dlq", "label=label-0", dlqPage},
	{"retry messages", http.MethodPost, "/v2/dlq/retry", "", dlqPage},
	{"retry messages by url", http.MethodPost, "/v2/dlq/retry", "url=DESTINATION/host-0", dlqPage},
	{"delete runs", http.MethodDelete, "/v2/workflows/dlq", "", dlqPage},
	{"delete runs by label", http.MethodDelete, "/v2/workflows/dlq", "label=label-0", dlqPage},
	{"restart runs", http.MethodPost, "/v2/workflows/dlq/restart", "", dlqPage},
	{"restart runs by url", http.MethodPost, "/v2/workflows/dlq/restart", "workflowUrl=DESTINATION/host-0", dlqPage},
	{"delete a hundred messages", http.MethodDelete, "/v2/dlq", "", dlqLargePage},
	{"delete a hundred runs", http.MethodDelete, "/v2/workflows/dlq", "", dlqLargePage},
}

func (s dlqScenario) run(ctx context.Context, l *lab) ([]Result, error) {
	few, many := &dlqStore{condition: condition{name: "thousand"}}, &dlqStore{condition: condition{name: "many"}}
	defer few.close()
	defer many.close()
	if err := many.open(ctx, l, l.options.Failed); err != nil {
		return nil, err
	}
	sides := []*dlqStore{few, many}
	for number := range l.options.Rounds {
		l.note("%s, round %d of %d", s.name(), number+1, l.options.Rounds)
		if err := s.renew(ctx, l, few, many); err != nil {
			return nil, err
		}
		if err := s.round(ctx, l, number, sides); err != nil {
			return nil, err
		}
	}
	if err := s.renew(ctx, l, few, many); err != nil {
		return nil, err
	}
	for _, side := range sides {
		if err := side.thin(ctx, l); err != nil {
			return nil, err
		}
	}
	for range l.options.Rounds {
		if err := s.listAll(ctx, l, sides, ", nine tenths deleted"); err != nil {
			return nil, err
		}
	}
	return []Result{{Scenario: s.name(), Baseline: few.name, Subject: many.name, Measures: compare(few.rounds, many.rounds)}}, nil
}

// renew gives the one a thousand dead letters again, most of which a round uses up. The
// servers are new on both sides behind it: one that has answered much is faster.
func (dlqScenario) renew(ctx context.Context, l *lab, few, many *dlqStore) error {
	few.close()
	if err := few.open(ctx, l, fewFailed); err != nil {
		return err
	}
	return errors.Join(few.restart(ctx, l), many.restart(ctx, l))
}

// round lists all there is to list, and then changes pages in each way.
func (s dlqScenario) round(ctx context.Context, l *lab, number int, sides []*dlqStore) error {
	if err := s.listAll(ctx, l, sides, ""); err != nil {
		return err
	}
	for i := range dlqActions {
		for change := range dlqChanges {
			if err := s.changeAll(ctx, l, number*dlqChanges+change, sides, &dlqActions[i]); err != nil {
				return err
			}
		}
	}
	for _, side := range sides {
		side.rounds = append(side.rounds, side.server.memory())
	}
	return nil
}

// changeAll does something to a page of all sides, one after the other. Each is the first
// every other turn, and the next one begins when what this one delivers is delivered:
// deliveries of one would be measured with the answer of the other.
func (dlqScenario) changeAll(ctx context.Context, l *lab, turn int, sides []*dlqStore, action *dlqAction) error {
	for i := range sides {
		if turn%2 == 1 {
			i = len(sides) - 1 - i
		}
		if err := sides[i].change(ctx, l, action); err != nil {
			return err
		}
	}
	return nil
}

// listAll asks all sides for each list before it goes on to the next.
func (dlqScenario) listAll(ctx context.Context, l *lab, sides []*dlqStore, when string) error {
	for _, list := range dlqLists {
		for _, order := range []struct{ name, params string }{{"", ""}, {", oldest first", "&order=earliestFirst"}} {
			target, wanted := list.path+"?"+list.params+order.params, dlqPage
			for _, side := range sides {
				n, err := side.reachable(ctx, l, target)
				if err != nil {
					return err
				}
				wanted = min(wanted, n)
			}
			if err := listInTurn(ctx, l, sides, list.name+order.name+when, target, wanted); err != nil {
				return err
			}
		}
	}
	return nil
}

// listInTurn notes how long it takes all sides to list as many as are wanted. A list that
// the smaller side has nothing of is left out.
func listInTurn(ctx context.Context, l *lab, sides []*dlqStore, name, target string, wanted int) error {
	if wanted == 0 {
		return nil
	}
	var askers []asker
	for _, side := range sides {
		askers = append(askers, side.lister(ctx, l, target, wanted))
	}
	took, _, err := briefly.take(askers...)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	for i, side := range sides {
		side.rounds = append(side.rounds, []reading{measured(name, "ms", milliseconds(took[i]))})
	}
	return nil
}

// dlqStore is a server with dead letters.
type dlqStore struct{ condition }

// open starts a server on a store with a number of dead letters of each kind.
func (c *dlqStore) open(ctx context.Context, l *lab, failed int) (err error) {
	if c.dir, err = l.place(); err != nil {
		return err
	}
	data := filepath.Join(c.dir, dataDir)
	began := time.Now()
	h := &history{
		user: benchingUser, size: l.options.Size, until: time.Now(), span: dlqSpan, total: failed,
		destination: l.sink.url(), fails: true,
	}
	if _, err := h.write(ctx, data); err != nil {
		return fmt.Errorf("store dead letters: %w", err)
	}
	if err := fillFailed(ctx, data, l.sink.url(), failed); err != nil {
		return fmt.Errorf("store failed runs: %w", err)
	}
	if err := compact(ctx, data); err != nil {
		return err
	}
	l.note("  %s: stored %d dead letters of messages and of runs in %s", c.name, failed, time.Since(began).Round(time.Second))
	if c.server, err = l.start(ctx, l.server(), c.dir); err == nil {
		c.rounds = append(c.rounds, []reading{measured("start", "ms", milliseconds(c.server.readyAfter))})
	}
	return err
}

// reachable returns how many dead letters a list has, and no more than fit a page, by
// following cursors.
func (c *dlqStore) reachable(ctx context.Context, l *lab, target string) (n int, err error) {
	for cursor := ""; ; {
		_, some, err := c.call(ctx, l, http.MethodGet, target+"&cursor="+cursor, dlqPage)
		if n += some.letters; err != nil || some.cursor == "" || n >= dlqPage {
			return min(n, dlqPage), err
		}
		cursor = some.cursor
	}
}

// lister returns what asks for as many of a list as are wanted.
func (c *dlqStore) lister(ctx context.Context, l *lab, target string, wanted int) asker {
	return func() (time.Duration, error) {
		took, page, err := c.call(ctx, l, http.MethodGet, target, wanted)
		if err = errors.Join(err, page.has(wanted)); err != nil {
			return 0, fmt.Errorf("%s: %w%s", c.name, err, c.server.lastWords())
		}
		return took, nil
	}
}

// change does something to a page, once, and notes how long the answer takes. It returns
// when all that follows from it is delivered.
func (c *dlqStore) change(ctx context.Context, l *lab, action *dlqAction) error {
	before, err := c.server.attempts(ctx)
	if err != nil {
		return err
	}
	took, page, err := c.call(ctx, l, action.method, action.path+"?"+action.params, action.count)
	if err = errors.Join(err, page.has(action.count)); err == nil {
		err = c.server.awaitAttempts(ctx, before+action.deliveries())
	}
	if err != nil {
		return fmt.Errorf("%s, %s: %w%s", c.name, action.name, err, c.server.lastWords())
	}
	c.rounds = append(c.rounds, []reading{measured(action.name, "ms", milliseconds(took))})
	return nil
}

// thin deletes nine tenths of the dead letters of each kind, the oldest first, and notes
// how long a request for it takes. Each begins at the oldest there is.
func (c *dlqStore) thin(ctx context.Context, l *lab) error {
	var usage struct{ DeadLetters, FailedRuns struct{ Entries int } }
	text, _, err := c.send(ctx, l, http.MethodGet, "/v2/usage")
	if err == nil {
		err = json.Unmarshal(text, &usage)
	}
	if err != nil {
		return err
	}
	for _, kind := range []struct {
		name, path string
		there      int
	}{
		{"delete nine tenths of the messages, a hundred at a time", "/v2/dlq?", usage.DeadLetters.Entries},
		{"delete nine tenths of the runs, a hundred at a time", "/v2/workflows/dlq?", usage.FailedRuns.Entries},
	} {
		for range kind.there * 9 / 10 / dlqLargePage {
			took, page, err := c.call(ctx, l, http.MethodDelete, kind.path, dlqLargePage)
			if err = errors.Join(err, page.has(dlqLargePage)); err != nil {
				return fmt.Errorf("%s, %s: %w%s", c.name, kind.name, err, c.server.lastWords())
			}
			c.rounds = append(c.rounds, []reading{measured(kind.name, "ms", milliseconds(took))})
		}
	}
	return nil
}

// call sends a request for count dead letters. It returns how long the answer took, and
// what that is about.
func (c *dlqStore) call(ctx context.Context, l *lab, method, target string, count int) (time.Duration, letters, error) {
	text, took, err := c.send(ctx, l, method, fmt.Sprintf("%s&count=%d", target, count))
	if err != nil {
		return 0, letters{}, err
	}
	page, err := lettersOf(text)
	return took, page, err
}

// send sends a request, and returns the answer and how long it took.
func (c *dlqStore) send(ctx context.Context, l *lab, method, target string) (answer []byte, took time.Duration, err error) {
	params := bytes.ReplaceAll([]byte(target), []byte("DESTINATION"), []byte(url.QueryEscape(l.sink.url())))
	req, err := http.NewRequestWithContext(ctx, method, fmt.Sprintf("http://%s%s", c.server.host, params), nil)
	if err != nil {
		return nil, 0, err
	}
	req.Header.Set("Authorization", "Bearer "+l.token)
	began := time.Now()
	response, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, 0, err
	}
	defer response.Body.Close()
	if response.StatusCode/100 != 2 {
		return nil, 0, refusal(response)
	}
	answer, err = io.ReadAll(response.Body)
	return answer, time.Since(began), err
}

// letters are what an answer is about.
type letters struct {
	letters int    // that it shows, or says to have changed
	cursor  string // "" at the end
}

// has returns an error unless the response is about the wanted number of dead letters.
func (p letters) has(wanted int) error {
	if p.letters != wanted {
		return fmt.Errorf("the answer is about %d dead letters, %d were expected", p.letters, wanted)
	}
	return nil
}

func lettersOf(answer []byte) (letters, error) {
	var page struct {
		Messages  []json.RawMessage `json:"messages"`
		DLQ       []json.RawMessage `json:"workflowDlq"`
		Runs      []json.RawMessage `json:"workflowRuns"`
		Responses []json.RawMessage `json:"responses"`
		Deleted   int               `json:"deleted"`
		Cursor    string            `json:"cursor"`
	}
	err := json.Unmarshal(answer, &page)
	n := slices.Max([]int{len(page.Messages), len(page.DLQ), len(page.Runs), len(page.Responses), page.Deleted})
	return letters{n, page.Cursor}, err
}
