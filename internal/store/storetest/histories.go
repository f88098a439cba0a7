package storetest

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"posthaste"
	"posthaste/internal/store"
)

// RunHistories makes the same random changes to several empty stores, which a seed
// decides, and requires that all tell the same: in what they answer to each change, and in
// what can be read in between. The first is what the others are compared with. Open is
// called for each seed; there are as many as usual, unless STORETEST_SEEDS or
// STORETEST_SEED says otherwise.
//
// What a store is free to choose is left out: the tokens of claims, the order in which one
// change goes through several messages, and of positions all but their time.
func RunHistories(t *testing.T, usual int64, open func(t *testing.T) (names []string, stores []store.Store)) {
	for _, seed := range seeds(t, usual) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			names, stores := open(t)
			var first []string
			for i, s := range stores {
				told := makeHistory(t, s, uint64(seed))
				if i == 0 {
					first = told
				} else if diff := gocmp.Diff(first, told); diff != "" {
					t.Errorf("with %s=%d, %s and %s tell different things (-%[4]s +%[3]s):\n%[5]s", seedVariable, seed, names[i], names[0], diff)
				}
			}
		})
	}
}

// historian makes a history and writes it down.
type historian struct {
	*trial
	rng    *rand.Rand
	claims []store.Claim // that go on, by message
	runs   []*posthaste.Run
	told   []string

	secrets int // how many are kept
}

// changesOfHistory is how many changes a history has.
const changesOfHistory = 160

// makeHistory makes random changes to a store and returns what it told.
func makeHistory(t *testing.T, s store.Store, seed uint64) []string {
	t.Helper()
	h := newHistorian(t, s, seed)
	changes := []func(){
		h.accept, h.accept, h.claim, h.claim, h.settleOne, h.settleOne, h.settleOne, h.settleOne, h.releaseOne, h.cancel,
		h.changeQueue, h.changeKey, h.retryLetter, h.deleteLetter, h.startRun, h.changeRun, h.changeRun, h.endRun,
		h.changeGroup, h.changeSchedule, h.tick, h.cancelInSteps, h.notify, h.retain, h.runNow,
	}
	for i := range changesOfHistory {
		h.change(changes)
		if i%20 == 19 {
			h.look()
		}
	}
	return h.told
}

func newHistorian(t testing.TB, s store.Store, seed uint64) *historian {
	h := &historian{trial: newTrial(t, s), rng: rand.New(rand.NewPCG(seed, 1))}
	h.makes = newMaker(seed)
	return h
}

// change makes one of some changes.
func (h *historian) change(changes []func()) {
	h.wait(time.Duration(1+h.rng.IntN(30_000)) * time.Millisecond)
	changes[h.rng.IntN(len(changes))]()
}

func (h *historian) tell(format string, args ...any) {
	h.told = append(h.told, fmt.Sprintf("%6s ", since(h.now))+fmt.Sprintf(format, args...))
}

// since writes a time of a history.
func since(at time.Time) string {
	if at.IsZero() {
		return "never"
	}
	return at.Sub(start).String()
}

// chance is true once in n times.
func (h *historian) chance(n int) bool { return h.rng.IntN(n) == 0 }

// someMessage makes a message that has values of few in common with others. One in a
// queue has no key, or that of the queue: which lane gets the room under a key is for the
// store to choose.
func (h *historian) someMessage() *posthaste.Message {
	keyed := h.chance(2)
	return h.message(variety(h.rng), delayed(time.Duration(max(0, h.rng.IntN(120)-60))*time.Second), func(m *posthaste.Message) {
		if m.Queue != "" {
			m.FlowControl = posthaste.FlowControl{}
		}
		if m.Queue != "" && keyed {
			m.FlowControl.Key = "of-" + m.Queue
		}
	})
}

func (h *historian) accept() {
	var submissions []store.Submission
	user := ann
	if h.chance(6) {
		user = anna
	}
	for range 1 + h.rng.IntN(3) {
		m := h.someMessage()
		m.User = user
		s := store.Submission{Messages: []*posthaste.Message{m}}
		if h.chance(3) {
			s.DedupKey = fmt.Sprintf("key-%d", h.rng.IntN(5))
		}
		submissions = append(submissions, s)
	}
	accepted, err := h.store.Accept(h.Context(), h.now, submissions)
	h.tell("accept %v %v", accepted, err)
}

func (h *historian) claim() {
	claims, _ := h.trial.claim(plenty)
	h.claims = append(h.claims, claims...)
	slices.SortFunc(h.claims, func(a, b store.Claim) int { return cmp.Compare(a.Message.ID.String(), b.Message.ID.String()) })
	for _, c := range h.claims {
		h.tell("claimed %s after %d", c.Message.ID, c.Retried)
	}
}

// takeClaim takes one of the claims that go on; ok is false if there is none.
func (h *historian) takeClaim() (c store.Claim, ok bool) {
	if len(h.claims) == 0 {
		return c, false
	}
	i := h.rng.IntN(len(h.claims))
	c = h.claims[i]
	h.claims = slices.Delete(h.claims, i, i+1)
	return c, true
}

func (h *historian) settleOne() {
	c, ok := h.takeClaim()
	if !ok {
		return
	}
	s, _ := h.anySettlement(c)
	settled, err := h.store.Settle(h.Context(), h.now, s)
	h.tell("settle %s as %s: %s, %v", c.Message.ID, s.State, settled.State, err)
	h.tell("a second time: %v", errorOf(h.store.Settle(h.Context(), h.now, s)))
}

// anySettlement ends a claim, with or without a callback or another entry of its run, whose message
// it returns.
func (h *historian) anySettlement(c store.Claim) (store.Settlement, *posthaste.Message) {
	s := anySettlement(h.rng, h.now, c)
	m := h.message(ownedBy(c.Message.User))
	switch {
	case !h.chance(3):
	case c.Message.Run == nil:
		m.SourceID = c.Message.ID
		s.Callbacks = callbacksOf(m)
	default:
		s.UpdateRun = func(tx store.RunTx, _ *store.Settlement) error {
			run, err := tx.Run(c.Message.Run.Position)
			if err != nil { // retention has removed it
				return except(err, store.ErrNotFound)
			}
			return appendTo(tx, run, m)
		}
	}
	return s, m
}

func (h *historian) releaseOne() {
	if c, ok := h.takeClaim(); ok {
		h.trial.release(c)
		h.tell("release %s", c.Message.ID)
	}
}

// someIDs returns ids of messages of ann, also of some that were not accepted.
func (h *historian) someIDs() (ids []posthaste.MessageID) {
	for _, id := range h.makes.ids[ann] {
		if h.chance(20) {
			ids = append(ids, id)
		}
	}
	return ids
}

func (h *historian) cancel() {
	ids := h.someIDs()
	changed, err := h.store.Cancel(h.Context(), h.now, ann, ids, nil)
	h.tell("cancel %v: %v %v", ids, changed, err)
}

// runNow makes some messages due at once, of which most wait, run or have ended.
func (h *historian) runNow() {
	for _, id := range h.someIDs() {
		h.tell("run %s now: %v", id, h.store.RunNow(h.Context(), h.now, ann, id))
	}
}

func (h *historian) changeQueue() {
	name := fmt.Sprintf("queue-%d", h.rng.IntN(3))
	if h.chance(5) {
		h.deleteQueue(name)
	} else {
		paused, parallelism := h.chance(3), 1+h.rng.IntN(3)
		h.updateQueue(name, func(q *posthaste.Queue) { q.Paused, q.Parallelism = paused, parallelism })
	}
	h.tell("change %s", name)
}

func (h *historian) changeKey() {
	key, paused, parallelism := fmt.Sprintf("flow-%d", h.rng.IntN(3)), h.chance(3), h.rng.IntN(3)
	if h.chance(3) {
		key = fmt.Sprintf("of-queue-%d", h.rng.IntN(3))
	}
	if h.chance(5) {
		err := h.store.DeleteFlowKey(h.Context(), ann, key)
		h.tell("delete %s: %v", key, err)
		return
	}
	rate, period := h.rng.IntN(3), time.Duration(1+h.rng.IntN(60))*time.Second
	h.updateFlowKey(key, func(k *posthaste.FlowKey) {
		k.Paused, k.Parallelism, k.Rate, k.Period = paused, parallelism, rate, period
	})
	h.tell("change %s", key)
}

// someLetter returns one of the dead letters of ann, nil if there is none.
func (h *historian) someLetter() *posthaste.DeadLetter {
	all := h.letters()
	if len(all) == 0 {
		return nil
	}
	return all[h.rng.IntN(min(3, len(all)))]
}

// letters returns the dead letters of ann, those of one moment in the order of their messages.
func (h *historian) letters() []*posthaste.DeadLetter {
	return slices.SortedStableFunc(slices.Values(h.deadLetters(ann, store.DeadLetterQuery{High: posthaste.MaxPosition, OldestFirst: true, Limit: plenty})),
		func(a, b *posthaste.DeadLetter) int {
			return cmp.Or(a.FailedAt().Compare(b.FailedAt()), cmp.Compare(a.Message.ID.String(), b.Message.ID.String()))
		})
}

func (h *historian) retryLetter() {
	d := h.someLetter()
	if d == nil {
		return
	}
	m := h.someMessage()
	retried := h.retry([]posthaste.DeadLetterID{d.ID}, func(*posthaste.DeadLetter) (*posthaste.Message, error) { return m, nil })
	h.tell("retry %s as %s: %d", d.Message.ID, m.ID, len(retried))
}

func (h *historian) deleteLetter() {
	d := h.someLetter()
	if d == nil {
		return
	}
	deleted, err := h.store.DeleteDeadLetters(h.Context(), ann, []posthaste.DeadLetterID{d.ID, d.ID + 1}, nil)
	h.tell("delete %s: %d %v", d.Message.ID, len(deleted), err)
}

func (h *historian) startRun() {
	id := fmt.Sprintf("run-%d", h.rng.IntN(6))
	label := fmt.Sprintf("label-%d", h.rng.IntN(3))
	run, _ := h.start(withID(id), func(run *posthaste.Run) { run.Labels = []string{label} })
	h.runs = append(h.runs, run)
	h.tell("start %s", id)
}

// changeRun lets one of the runs go on, wait, fail, or come back from the DLQ.
func (h *historian) changeRun() {
	if len(h.runs) == 0 {
		return
	}
	i := h.rng.IntN(len(h.runs))
	run := h.run(h.runs[i])
	switch {
	case run.DeadLetterID != 0:
		h.runs[i] = h.update(run, func(tx store.RunTx, run *posthaste.Run) error {
			tx.RemoveFromDLQ(run)
			run.DeadLetterID, run.State = 0, posthaste.RunStarted
			return nil
		})
	case h.chance(3):
		first := h.status(&posthaste.Message{User: ann, ID: run.FirstID}).Message
		h.update(run, func(tx store.RunTx, run *posthaste.Run) error { return failIn(tx, run, first) })
	case h.chance(2):
		h.await(run, until(h.now.Add(time.Minute)))
	default:
		h.step(run)
	}
	h.tell("change %s, which was %s", run.ID, run.State)
}

// failIn lets a run fail in a transaction, with all that ends then.
func failIn(tx store.RunTx, run *posthaste.Run, m *posthaste.Message) error {
	addToDLQIn(tx, run, letterOf(m))
	return errors.Join(tx.CancelDeliveries(run, true), tx.DropEvents(run.Position))
}

// look reads everything in several ways.
func (h *historian) look() {
	h.settleDown(ann)
	h.settleDown(anna)
	h.tellLog("log of another", h.wholeLog(anna))
	log := h.wholeLog(ann)
	if err := auditCounts(h.Context(), h.store, ann, log); err != nil {
		h.Error(err)
	}
	h.tellLog("log", log)
	for _, field := range eventFields {
		filter := posthaste.Filter{}
		if len(log) > 0 && field.ask(&filter, log[h.rng.IntN(len(log))]) {
			h.lookWith(field.name, filter)
		}
	}
	for _, run := range h.runs {
		h.lookWith(run.ID, posthaste.Filter{OfRuns: true, RunIDs: []string{run.ID}})
	}
	for _, id := range h.someIDs() {
		status, err := h.store.Message(h.Context(), ann, id)
		h.tell("%s is %s after %d, next %s, %v", id, status.State, status.Retried, since(status.NextAttemptAt), err)
	}
	h.lookAtLetters()
	h.lookAtLanes()
	h.lookAtRuns()
	h.lookAtResources()
	u := h.usage(ann)
	h.tell("%d in flight; kept %d, %d, %d, %d", u.InFlight, u.Log.Entries, u.DeadLetters.Entries, u.FailedRuns.Entries, u.Runs.Entries)
}

// lookWith reads the log through a filter, in both directions, page by page.
func (h *historian) lookWith(what string, filter posthaste.Filter) {
	limit := 1 + h.rng.IntN(10)
	for _, oldestFirst := range []bool{true, false} {
		entries := h.events(ann, store.EventQuery{Filter: filter, High: posthaste.MaxPosition, OldestFirst: oldestFirst, Limit: limit})
		if !oldestFirst {
			slices.Reverse(entries)
		}
		h.tellLog(what, entries)
	}
}

// tellLog writes events down, those that one change added in the order of their messages.
func (h *historian) tellLog(what string, entries []store.Entry) {
	slices.SortStableFunc(entries, func(a, b store.Entry) int {
		return cmp.Or(a.Position.Time().Compare(b.Position.Time()),
			cmp.Compare(a.MessageID.String(), b.MessageID.String()), cmp.Compare(a.Position, b.Position))
	})
	for _, e := range entries {
		status := 0
		if e.Response != nil {
			status = e.Response.Status
		}
		h.tell("%s: %s %s %s %q %d, next %s", what, since(e.Position.Time()), e.MessageID, e.State, e.Error, status, since(e.NextDeliveryAt))
	}
}

func (h *historian) lookAtLetters() {
	all := h.letters()
	for _, d := range all {
		h.tell("dead: %s %s %q", since(posthaste.Position(d.ID).Time()), d.Message.ID, d.Error)
	}
	if len(all) == 0 {
		return
	}
	d := all[h.rng.IntN(len(all))]
	for _, field := range letterFields {
		query := store.DeadLetterQuery{High: posthaste.MaxPosition, Limit: 1 + h.rng.IntN(5)}
		field.ask(&query.Filter, d)
		found := messagesOf(h.deadLetters(ann, query))
		slices.SortFunc(found, func(a, b posthaste.MessageID) int { return slices.Compare(a[:], b[:]) })
		h.tell("dead with %s of %s: %v", field.name, d.Message.ID, found)
	}
}

func messagesOf(letters []*posthaste.DeadLetter) (ids []posthaste.MessageID) {
	for _, d := range letters {
		ids = append(ids, d.Message.ID)
	}
	return ids
}

func (h *historian) lookAtLanes() {
	queues, err := h.allQueues(ann)
	for _, q := range queues {
		h.tell("queue %s: %d, %t, %d", q.Name, q.Parallelism, q.Paused, q.Lag)
	}
	keys, keyErr := h.allFlowKeys("")
	for _, k := range keys {
		h.tell("key %s: %d, %t, %d and %d", k.Key, k.Parallelism, k.Paused, k.InFlight, k.Waiting)
	}
	if err != nil || keyErr != nil {
		h.Fatal(err, keyErr)
	}
}

func (h *historian) lookAtRuns() {
	from := len(h.told)
	defer func() { slices.Sort(h.told[from:]) }() // those of one moment have no order
	for _, run := range h.trial.runs(ann, allRuns) {
		h.tell("run %s of %s: %s, %d entries", run.ID, since(run.CreatedAt), run.State, run.Entries)
	}
	for _, query := range []store.RunQuery{
		{Filter: posthaste.Filter{RunIDs: []string{"run-1", "run-2"}}},
		{Filter: posthaste.Filter{RunStates: []posthaste.RunState{posthaste.RunFailed}, Labels: []string{"label-1"}}},
		{Filter: posthaste.Filter{Labels: []string{"label-0", "label-1"}}, Failed: true},
	} {
		query.High, query.Limit = posthaste.MaxPosition, 2
		var ids []string
		for _, run := range h.trial.runs(ann, query) {
			ids = append(ids, run.ID)
		}
		slices.Sort(ids)
		h.tell("runs with %+v: %s", query.Filter, strings.Join(ids, " "))
	}
}
