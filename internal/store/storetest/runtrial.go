package storetest

import (
	"errors"
	"fmt"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// What follows lets a trial work with runs. A backend may call the function of a
// transaction more than once, so these functions make anew what a transaction
// changes: only messages, which the last call overwrites, are made before.

// errGivenUp ends a transaction that is to leave nothing behind.
var errGivenUp = errors.New("storetest: given up")

// transact makes a change to ann's runs, which must succeed.
func (tr *trial) transact(change func(store.RunTx) error) {
	tr.Helper()
	tr.transactAs(ann, change)
}

func (tr *trial) transactAs(user string, change func(store.RunTx) error) {
	tr.Helper()
	tr.ok(tr.store.Transact(tr.Context(), tr.now, user, change))
}

// look reads in a transaction that leaves nothing behind.
func (tr *trial) look(read func(store.RunTx) error) {
	tr.Helper()
	tr.lookAs(ann, read)
}

func (tr *trial) lookAs(user string, read func(store.RunTx) error) {
	tr.Helper()
	err := tr.store.Transact(tr.Context(), tr.now, user, func(tx store.RunTx) error {
		if err := read(tx); err != nil {
			return err
		}
		return errGivenUp
	})
	if !errors.Is(err, errGivenUp) {
		tr.Fatalf("Transact = %v, want the error of the function", err)
	}
}

// change makes a change to one run and saves it.
func (tr *trial) change(user string, run *posthaste.Run, change func(store.RunTx, *posthaste.Run) error) error {
	return tr.store.Transact(tr.Context(), tr.now, user, func(tx store.RunTx) error {
		run, err := tx.Run(run.Position)
		if err != nil {
			return err
		}
		if err := change(tx, run); err != nil {
			return err
		}
		tx.Save(run)
		return nil
	})
}

// update makes a change to a run, which must succeed, and returns it as stored.
func (tr *trial) update(run *posthaste.Run, change func(store.RunTx, *posthaste.Run) error) *posthaste.Run {
	tr.Helper()
	tr.ok(tr.change(run.User, run, change))
	return tr.run(run)
}

// runOf makes what a run of ann is started with; the edits change it.
func (tr *trial) runOf(edits ...func(*posthaste.Run)) posthaste.Run {
	run := posthaste.Run{
		User:        ann,
		RunRef:      posthaste.RunRef{ID: fmt.Sprintf("run-%d", tr.makes.made), URL: "http://workflow.example/path"},
		RunProgress: posthaste.RunProgress{State: posthaste.RunStarted},
	}
	for _, edit := range edits {
		edit(&run)
	}
	return run
}

func withID(id string) func(*posthaste.Run) {
	return func(run *posthaste.Run) { run.ID = id }
}

// begin starts a run in a transaction, with a first entry that the message
// delivers, and logs that.
func begin(tx store.RunTx, made posthaste.Run, first *posthaste.Message) (*posthaste.Run, error) {
	run := made
	run.Position = tx.NextPosition(run.Slot())
	run.CreatedAt, run.FirstID = run.Position.Time(), first.ID
	tx.Start(&run)
	err := appendTo(tx, &run, first)
	tx.Log(first, posthaste.StateRunStarted, "")
	tx.Save(&run)
	return &run, err
}

// appendTo adds an entry to a run's list, with a message that delivers it and has
// its body.
func appendTo(tx store.RunTx, run *posthaste.Run, m *posthaste.Message) error {
	m.Run = &posthaste.RunLink{RunRef: run.RunRef, CallType: posthaste.CallStep}
	return tx.Append(run, posthaste.RunEntry{MessageID: m.ID, CallType: m.Run.CallType, Body: m.Body}, m)
}

// start starts a run and returns it as stored, and the message that delivers its
// first entry.
func (tr *trial) start(edits ...func(*posthaste.Run)) (*posthaste.Run, *posthaste.Message) {
	tr.Helper()
	made := tr.runOf(edits...)
	first := tr.message(ownedBy(made.User), ofRun(&made, posthaste.CallStep))
	var run *posthaste.Run
	tr.transactAs(made.User, func(tx store.RunTx) (err error) {
		run, err = begin(tx, made, first)
		return err
	})
	return tr.run(run), first
}

// step adds an entry to a run's list and returns the message that delivers it.
func (tr *trial) step(run *posthaste.Run, edits ...func(*posthaste.Message)) *posthaste.Message {
	tr.Helper()
	m := tr.message(append(edits, ownedBy(run.User), ofRun(run, posthaste.CallStep))...)
	tr.update(run, func(tx store.RunTx, run *posthaste.Run) error { return appendTo(tx, run, m) })
	return m
}

func ofRun(run *posthaste.Run, callType posthaste.CallType) func(*posthaste.Message) {
	return func(m *posthaste.Message) { m.Run = &posthaste.RunLink{RunRef: run.RunRef, CallType: callType} }
}

// acceptOf makes a message of a run that adds nothing to its list and has it
// accepted: a failure callback, unless the edits say otherwise.
func (tr *trial) acceptOf(run *posthaste.Run, edits ...func(*posthaste.Message)) *posthaste.Message {
	tr.Helper()
	m := tr.message(append([]func(*posthaste.Message){ownedBy(run.User), ofRun(run, posthaste.CallFailure)}, edits...)...)
	tr.transactAs(run.User, func(tx store.RunTx) error { return tx.Accept(m) })
	return m
}

// rivals makes messages of which one will be accepted.
func (tr *trial) rivals(n int) []*posthaste.Message {
	messages := make([]*posthaste.Message, n)
	for i := range messages {
		messages[i] = newMaker(uint64(500 + i)).message(tr.now)
	}
	return messages
}

// run returns a run as it is stored.
func (tr *trial) run(run *posthaste.Run) *posthaste.Run {
	tr.Helper()
	stored := must(tr.store.Run(tr.Context(), run.User, run.Position))(tr)
	return stored
}

func (tr *trial) latest(id string) *posthaste.Run {
	tr.Helper()
	run := must(tr.store.LatestRun(tr.Context(), ann, id))(tr)
	return run
}

// entries returns the list of a run.
func (tr *trial) entries(run *posthaste.Run) []posthaste.RunEntry {
	tr.Helper()
	entries := must(tr.store.RunEntries(tr.Context(), run.User, run.Position, 0, -1))(tr)
	return entries
}

// Queries for every run, and for every one in the DLQ.
var (
	allRuns  = store.RunQuery{High: posthaste.MaxPosition, OldestFirst: true, Limit: plenty}
	allInDLQ = store.RunQuery{Failed: true, High: posthaste.MaxPosition, OldestFirst: true, Limit: plenty}
)

// runs returns all runs that a query finds.
func (tr *trial) runs(user string, query store.RunQuery) []*posthaste.Run {
	tr.Helper()
	runs, _, err := readRuns(tr.Context(), tr.store, user, query)
	if err != nil {
		tr.Fatal(err)
	}
	return runs
}

// wantRunLog requires the states of all events of a run, given as one text.
func (tr *trial) wantRunLog(run *posthaste.Run, want string) {
	tr.Helper()
	tr.settleDown(run.User)
	got := statesText(tr.events(run.User, logQuery(posthaste.Filter{OfRuns: true, RunIDs: []string{run.ID}})))
	if got != want {
		tr.Errorf("log of run %s: %s, want %s", run.ID, got, want)
	}
}

// waiterOf makes a waiter of a run for the event "event", without a deadline; the
// edits change it.
func waiterOf(run *posthaste.Run, edits ...func(*posthaste.Waiter)) *posthaste.Waiter {
	w := &posthaste.Waiter{
		Run:       run.RunRef,
		CreatedAt: run.CreatedAt,
		Step:      []byte(`{"stepId":1}`),
		Topic:     posthaste.EventTopic("event"),
	}
	for _, edit := range edits {
		edit(w)
	}
	return w
}

func waitingFor(topic posthaste.Topic) func(*posthaste.Waiter) {
	return func(w *posthaste.Waiter) { w.Topic = topic }
}

func until(deadline time.Time) func(*posthaste.Waiter) {
	return func(w *posthaste.Waiter) { w.Deadline = deadline }
}

// await registers a waiter.
func (tr *trial) await(run *posthaste.Run, edits ...func(*posthaste.Waiter)) *posthaste.Waiter {
	tr.Helper()
	w := waiterOf(run, edits...)
	tr.transactAs(run.User, func(tx store.RunTx) error {
		tx.Wait(w)
		return nil
	})
	return w
}

// letterOf makes an entry of the DLQ of runs, without an id: that the delivery of
// a message failed.
func letterOf(m *posthaste.Message) *posthaste.DeadLetter {
	return &posthaste.DeadLetter{Message: m, Error: refused.Error, Response: refused.Response}
}

// addToDLQIn lets a run fail in a transaction.
func addToDLQIn(tx store.RunTx, run *posthaste.Run, d *posthaste.DeadLetter) {
	d.ID = posthaste.DeadLetterID(tx.NextPosition(run.Slot()))
	run.State, run.CompletedAt, run.DeadLetterID = posthaste.RunFailed, tx.Now(), d.ID
	run.FailedID, run.FailedStatus = d.Message.ID, 0
	if d.Response != nil {
		run.FailedStatus = d.Response.Status
	}
	tx.AddToDLQ(run, d)
	tx.Save(run)
	tx.Log(d.Message, posthaste.StateRunFailed, d.Error)
}

// addToDLQ lets a run fail because its first delivery did, and returns the entry.
func (tr *trial) addToDLQ(run *posthaste.Run) *posthaste.DeadLetter {
	tr.Helper()
	status := must(tr.store.Message(tr.Context(), run.User, run.FirstID))(tr)
	letter := letterOf(status.Message)
	tr.update(run, func(tx store.RunTx, run *posthaste.Run) error {
		addToDLQIn(tx, run, letter)
		return nil
	})
	return letter
}

// withEveryRunField gives a run a value in each field.
func withEveryRunField(run *posthaste.Run) {
	var m posthaste.Message
	withEverything(&m)
	result := "" // which is not the same as none
	other := posthaste.RunRef{ID: "other", CreatedAt: start, Position: posthaste.FirstPosition(start), URL: "http://other.example/"}
	successor := other
	run.CallerIP = m.CallerIP
	run.Features = posthaste.FeatureLazyFetch | posthaste.FeatureCheckSDK
	run.LazySDK = true
	run.Queue = "a queue"
	run.Settings = m.Settings
	run.Overridden = posthaste.OverriddenLabels | posthaste.OverriddenRetries
	run.Invoker = &other
	run.Origin = &posthaste.RunOrigin{RunRef: other, DeadLetterID: 7, Resumed: true}
	run.RunProgress = posthaste.RunProgress{
		State:        posthaste.RunFailed,
		CompletedAt:  start.Add(time.Hour),
		Result:       &result,
		DeadLetterID: 9,
		FailedID:     posthaste.MessageID{1, 2, 3},
		FailedStatus: 503,
		Reported: &posthaste.RunCallback{
			MessageID: posthaste.MessageID{4, 5, 6},
			URL:       "http://callback.example/",
			State:     posthaste.CallbackInProgress,
			NotFound:  true,
			Response:  refused.Response,
			Error:     refused.Error,
		},
		Successor:     &successor,
		BufferedBytes: 10,
	}
}
