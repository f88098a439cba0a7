package runlog_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"posthaste"
	"posthaste/internal/api/wire"
	"posthaste/internal/ledger"
	"posthaste/internal/runlog"
	"posthaste/internal/store"
	"posthaste/internal/store/lsm"
)

// world is a log in front of a real store. Its clock stands still unless it is told
// to go on.
type world struct {
	*testing.T
	store   *ledger.Ledger
	log     *runlog.Log
	now     time.Time
	entropy *rand.ChaCha8
}

func newWorld(t *testing.T) *world {
	t.Helper()
	s, err := ledger.Over(lsm.Open("data", lsm.Options{FS: vfs.NewMem()}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	w := &world{T: t, store: s, now: noon, entropy: rand.NewChaCha8([32]byte{})}
	w.log = runlog.New(runlog.Options{Store: s, Now: func() time.Time { return w.now }})
	return w
}

// after lets time go by.
func (w *world) after(d time.Duration) { w.now = w.now.Add(d) }

func (w *world) messageID() posthaste.MessageID {
	w.Helper()
	id, err := posthaste.NewMessageID(w.now, w.entropy)
	if err != nil {
		w.Fatal(err)
	}
	return id
}

func (w *world) transact(change func(tx store.RunTx) error) {
	w.Helper()
	if err := w.store.Transact(w.Context(), w.now, "ann", change); err != nil {
		w.Fatal(err)
	}
}

// start begins a run, a second after the one before.
func (w *world) start(id string, changes ...func(*posthaste.Run)) *posthaste.Run {
	w.Helper()
	w.after(time.Second)
	run := &posthaste.Run{
		RunRef:      posthaste.RunRef{ID: id, URL: "https://app.example/wf"},
		User:        "ann",
		FirstID:     w.messageID(),
		RunProgress: posthaste.RunProgress{State: posthaste.RunStarted},
	}
	for _, change := range changes {
		change(run)
	}
	w.transact(func(tx store.RunTx) error {
		run.Position, run.Entries = tx.NextPosition(run.Slot()), 0
		run.CreatedAt = run.Position.Time()
		tx.Start(run)
		first := w.messageOf(run, posthaste.CallStep)
		first.ID = run.FirstID
		tx.Log(first, posthaste.StateRunStarted, "")
		return tx.Append(run, posthaste.RunEntry{MessageID: first.ID, CallType: posthaste.CallStep, Body: []byte("payload of " + id)}, first)
	})
	return run
}

// messageOf makes a message of a run.
func (w *world) messageOf(run *posthaste.Run, callType posthaste.CallType) *posthaste.Message {
	return &posthaste.Message{
		ID:        w.messageID(),
		User:      "ann",
		URL:       run.URL,
		CreatedAt: w.now,
		NotBefore: w.now,
		CallerIP:  run.CallerIP,
		Run:       &posthaste.RunLink{RunRef: run.RunRef, CallType: callType},
		Settings:  posthaste.Settings{Header: run.Header, Labels: run.Labels, FlowControl: run.FlowControl, Redact: run.Redact},
	}
}

// append adds an entry with a message to the list of a run.
func (w *world) append(run *posthaste.Run, callType posthaste.CallType, body string, changes ...func(*posthaste.Message)) *posthaste.Message {
	w.Helper()
	m := w.messageOf(run, callType)
	for _, change := range changes {
		change(m)
	}
	w.transact(func(tx store.RunTx) error {
		held, err := tx.Run(run.Position)
		if err != nil {
			return err
		}
		return tx.Append(held, posthaste.RunEntry{MessageID: m.ID, CallType: callType, Body: []byte(body)}, m)
	})
	return m
}

// change changes a run and logs its state if that is another one.
func (w *world) change(run *posthaste.Run, change func(tx store.RunTx, run *posthaste.Run)) {
	w.Helper()
	w.transact(func(tx store.RunTx) error {
		held, err := tx.Run(run.Position)
		if err != nil {
			return err
		}
		before := held.State
		change(tx, held)
		tx.Save(held)
		if held.State != before {
			m := w.messageOf(held, posthaste.CallStep)
			m.ID = held.FirstID
			tx.Log(m, posthaste.State(held.State), "")
		}
		return nil
	})
}

// end ends a run, and with it what is not delivered yet.
func (w *world) end(run *posthaste.Run, state posthaste.RunState) {
	w.Helper()
	w.change(run, func(tx store.RunTx, run *posthaste.Run) {
		run.State, run.CompletedAt = state, tx.Now()
		if err := tx.CancelDeliveries(run, true); err != nil {
			w.Fatal(err)
		}
	})
}

// settle attempts everything that is due. What decide returns nil for is delivered.
func (w *world) settle(decide func(store.Claim) *store.Settlement) {
	w.Helper()
	claims, _, err := w.store.Claim(w.Context(), w.now, 1000)
	if err != nil {
		w.Fatal(err)
	}
	for _, claim := range claims {
		settlement := store.Delivered(claim)
		if decided := decide(claim); decided != nil {
			settlement = *decided
		}
		if _, err := w.store.Settle(w.Context(), w.now, settlement); err != nil {
			w.Fatal(err)
		}
	}
}

// deliver delivers everything that is due.
func (w *world) deliver() {
	w.Helper()
	w.settle(func(store.Claim) *store.Settlement { return nil })
}

// retry lets everything that is due fail, with another attempt in a minute.
func (w *world) retry(status int) {
	w.Helper()
	w.settle(func(claim store.Claim) *store.Settlement {
		settlement := store.RetryAt(claim, w.now.Add(time.Minute), failure(status))
		return &settlement
	})
}

func failure(status int) posthaste.Outcome {
	if status == 0 {
		return posthaste.Outcome{Error: "no answer"}
	}
	return posthaste.Outcome{
		Error:    fmt.Sprint(status, " ", http.StatusText(status)),
		Response: &posthaste.Response{Status: status, Body: []byte("no")},
	}
}

// parse returns the query that parameters are translated to, for pages of ten.
func parse(t *testing.T, params string) *runlog.Query {
	t.Helper()
	values, err := url.ParseQuery(params)
	if err != nil {
		t.Fatalf("bad test parameters %q: %v", params, err)
	}
	query, err := wire.RunLog(values, wire.Count{Default: 10, Most: 10})
	if err != nil {
		t.Fatalf("bad test parameters %q: %v", params, err)
	}
	return &query
}

// runs returns a page of the log.
func (w *world) runs(params string) runlog.RunPage {
	w.Helper()
	page, err := w.log.Runs(w.Context(), "ann", parse(w.T, params))
	if err != nil {
		w.Fatalf("Runs(%s): %v", params, err)
	}
	return page
}

// allRuns follows the cursors to the end and returns the ids of the runs.
func (w *world) allRuns(params string) (ids []string, pages int) {
	w.Helper()
	for cursor := ""; pages < 100; pages++ {
		page := w.runs(params + cursor)
		for _, run := range page.Runs {
			ids = append(ids, run.ID)
		}
		if !page.More {
			return ids, pages + 1
		}
		cursor = "&cursor=" + wire.Cursor(page.Next)
	}
	w.Fatalf("Runs(%s) has no end", params)
	return nil, 0
}

// outlineOf returns the state and the groups of a run in short.
func (w *world) outlineOf(run posthaste.RunRef) string {
	w.Helper()
	page := w.runs(fmt.Sprintf("workflowRuns=%s@%d", url.QueryEscape(run.ID), run.CreatedAt.UnixMilli()))
	if len(page.Runs) != 1 {
		w.Fatalf("%d runs for %+v", len(page.Runs), run)
	}
	return string(page.Runs[0].State) + "\n" + outline(page.Runs[0].Groups)
}

// events returns all pages of the changes that parameters ask for, in short.
func (w *world) events(params string) []string {
	w.Helper()
	lines := []string{}
	cursor := ""
	for range 100 {
		page, err := w.log.Events(w.Context(), "ann", parse(w.T, params+cursor))
		if err != nil {
			w.Fatalf("Events(%s): %v", params, err)
		}
		for _, event := range page.Events {
			lines = append(lines, outlineEvent(event))
		}
		if !page.More {
			return lines
		}
		cursor = "&cursor=" + wire.Cursor(page.Next)
	}
	w.Fatalf("Events(%s) has no end", params)
	return nil
}

func outlineEvent(e *runlog.Event) string {
	words := []string{e.RunID, e.State}
	if e.Step != nil {
		step := *e.Step
		step.State = ""
		words = append(words, outlineStep(&step))
	}
	if e.ResponseStatus != 0 {
		words = append(words, fmt.Sprint(e.ResponseStatus))
	}
	if e.NextAt != 0 {
		words = append(words, "next")
	}
	return strings.TrimSpace(strings.ReplaceAll(strings.Join(words, " "), "  ", " "))
}
