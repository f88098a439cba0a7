package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	mathrand "math/rand/v2"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"time"

	"posthaste"
	"posthaste/internal/ledger"
	"posthaste/internal/store"
	"posthaste/internal/store/lsm"
)

// restartScenario compares Posthaste with itself: a server with a thousand failed
// runs in its DLQ, and one with many more. Both are swept by cursor, fifty runs a
// request, and deliver what they restart meanwhile.
type restartScenario struct{}

func (restartScenario) name() string { return "restart" }

const (
	fewFailed    = 1000
	sweepURL     = "/v2/workflows/dlq/restart"
	fillInOneGo  = 500 // runs in a commit
	benchingUser = "bench"
)

func (s restartScenario) run(ctx context.Context, l *lab) ([]Result, error) {
	l.note("%s: storing %d failed runs", s.name(), l.options.Failed)
	many := &sweep{condition: condition{name: "many"}}
	defer many.close()
	if err := many.openFailed(ctx, l, l.options.Failed); err != nil {
		return nil, err
	}
	var few [][]reading
	for number := range l.options.Rounds {
		l.note("%s, round %d of %d", s.name(), number+1, l.options.Rounds)
		readings, err := s.thousand(ctx, l)
		if err != nil {
			return nil, err
		}
		few = append(few, readings)
		if err := many.restart(ctx, l, min(fewFailed, many.left)); err != nil {
			return nil, err
		}
	}
	return []Result{{Scenario: s.name(), Baseline: "thousand", Subject: many.name, Measures: compare(few, many.rounds)}}, nil
}

// thousand sweeps a DLQ of a thousand runs to its end.
func (restartScenario) thousand(ctx context.Context, l *lab) ([]reading, error) {
	few := &sweep{condition: condition{name: "thousand"}}
	defer few.close()
	if err := few.openFailed(ctx, l, fewFailed); err != nil {
		return nil, err
	}
	err := few.restart(ctx, l, fewFailed)
	return slices.Concat(few.rounds...), err
}

// sweep is a server with failed runs, and how far they were restarted.
type sweep struct {
	condition
	left   int
	cursor string
}

// openFailed starts a server on a store that has failed runs in its DLQ.
func (c *sweep) openFailed(ctx context.Context, l *lab, failed int) (err error) {
	c.left = failed
	if c.dir, err = l.place(); err != nil {
		return err
	}
	data := filepath.Join(c.dir, dataDir)
	if err := fillFailed(ctx, data, l.sink.url(), failed); err != nil {
		return fmt.Errorf("store failed runs: %w", err)
	}
	if err := compact(ctx, data); err != nil {
		return err
	}
	c.server, err = l.start(ctx, l.server(), c.dir)
	return err
}

// fillFailed writes failed runs into a store that no program uses.
func fillFailed(ctx context.Context, data, destination string, failed int) error {
	names := newPopulation(mathrand.New(mathrand.NewPCG(3, 0)))
	return fillRuns(ctx, data, failed, func(tx store.RunTx) error { return failedRun(tx, destination, names) })
}

// fillRuns writes a number of runs into a store that no program uses.
func fillRuns(ctx context.Context, data string, runs int, write func(store.RunTx) error) error {
	s, err := ledger.Over(lsm.Open(data, lsm.Options{Logger: slog.New(slog.DiscardHandler)}))
	if err != nil {
		return err
	}
	for first := 0; first < runs && err == nil; first += fillInOneGo {
		err = s.Transact(ctx, time.Now(), benchingUser, func(tx store.RunTx) error {
			for range min(fillInOneGo, runs-first) {
				if err := write(tx); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return errors.Join(err, s.Close())
}

// failedRun writes a run whose first delivery has failed.
func failedRun(tx store.RunTx, destination string, p *population) error {
	id, err := posthaste.NewMessageID(tx.Now(), rand.Reader)
	if err != nil {
		return err
	}
	at, status := tx.NextPosition(0), anyFailure(p.Rand)
	run := &posthaste.Run{
		RunRef:      posthaste.RunRef{ID: "wfr_" + rand.Text(), CreatedAt: at.Time(), Position: at, URL: destination + "/" + p.one("host", historyHosts)},
		User:        benchingUser,
		CallerIP:    p.caller(),
		FirstID:     id,
		Settings:    posthaste.Settings{Header: http.Header{"Content-Type": {"application/json"}}, Labels: []string{"bench", p.one("label", historyLabels)}},
		RunProgress: posthaste.RunProgress{State: posthaste.RunFailed, CompletedAt: tx.Now(), FailedID: id, FailedStatus: status},
	}
	run.DeadLetterID = posthaste.DeadLetterID(tx.NextPosition(0))
	m := &posthaste.Message{
		ID: id, User: run.User, URL: run.URL, CreatedAt: tx.Now(), NotBefore: tx.Now(),
		Run:      &posthaste.RunLink{RunRef: run.RunRef, CallType: posthaste.CallStep},
		Settings: run.Settings,
	}
	tx.Start(run)
	if err := tx.Append(run, posthaste.RunEntry{MessageID: id, CallType: posthaste.CallStep, Body: []byte(`{"n":1}`)}, nil); err != nil {
		return err
	}
	tx.AddToDLQ(run, &posthaste.DeadLetter{ID: run.DeadLetterID, Message: m, Error: "the destination is not well", Response: &posthaste.Response{Status: status}})
	return nil
}

// restart restarts a number of runs by cursor.
func (c *sweep) restart(ctx context.Context, l *lab, enough int) error {
	var took []time.Duration
	restarted := 0
	began := time.Now()
	for restarted < enough {
		start := time.Now()
		n, next, err := restartPage(ctx, c.server.host, l.token, c.cursor)
		if err != nil {
			return fmt.Errorf("%w%s", err, c.server.lastWords())
		}
		took = append(took, time.Since(start))
		restarted += n
		if c.cursor = next; next == "" {
			break
		}
	}
	window := time.Since(began)
	c.left -= restarted
	if restarted < enough {
		return fmt.Errorf("the sweep ended after %d of %d runs", restarted, enough)
	}
	slices.Sort(took)
	c.rounds = append(c.rounds, append([]reading{
		measured("request of 50, p50", "ms", milliseconds(quantile(took, 0.50))),
		measured("request of 50, p99", "ms", milliseconds(quantile(took, 0.99))),
		measured("restarted by cursor", "runs/s", perSecond(restarted, window)),
		measured("start", "ms", milliseconds(c.server.readyAfter)),
	}, c.server.memory()...))
	return nil
}

// restartPage restarts the next page of a sweep.
func restartPage(ctx context.Context, host, token, cursor string) (restarted int, next string, err error) {
	target := "http://" + host + sweepURL + "?" + url.Values{"label": {"bench"}, "cursor": {cursor}}.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, nil)
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return 0, "", refusal(response)
	}
	var page struct {
		Cursor string            `json:"cursor"`
		Runs   []json.RawMessage `json:"workflowRuns"`
	}
	if err := json.NewDecoder(response.Body).Decode(&page); err != nil {
		return 0, "", err
	}
	_, err = io.Copy(io.Discard, response.Body)
	return len(page.Runs), page.Cursor, err
}
