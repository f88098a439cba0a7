package storetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// Contract, messages 2.9.
var deadLetterPromises = []promise{
	{"a message that fails becomes a dead letter", func(tr *trial) {
		m := tr.accept(withEverything)
		d := tr.fail(m, refused)
		tr.same("dead letter", &posthaste.DeadLetter{ID: d.ID, Message: m, Error: refused.Error, Response: refused.Response}, d)
		if log := tr.logOf(m); posthaste.DeadLetterID(log[len(log)-1].Position) != d.ID {
			tr.Errorf("the id is %s, FAILED is logged at %d", d.ID, log[len(log)-1].Position)
		}
		one := must(tr.store.DeadLetter(tr.Context(), ann, d.ID))(tr)
		tr.same("dead letter read by id", d, one)
	}},
	{"a failure without an answer has no response", func(tr *trial) {
		if d := tr.fail(tr.accept(), unreachable); d.Response != nil || d.Error != unreachable.Error {
			tr.Errorf("dead letter has response %v, error %q", d.Response, d.Error)
		}
	}},
	{"no other end makes a dead letter", func(tr *trial) {
		delivered, cancelled, both := tr.accept(), tr.accept(), tr.accept()
		claims := tr.claimThese(delivered, cancelled, both)
		tr.settle(store.Delivered(claims[0]))
		tr.release(claims[1])
		tr.wantCancels(2, cancelled, both)
		tr.settle(store.Failed(claims[2], refused))
		tr.wantDeadLetters()
	}},
	{"dead letters of others are not found", func(tr *trial) {
		d := tr.fail(tr.accept(ownedBy(anna)), refused)
		tr.wantErr(store.ErrNotFound, errorOf(tr.store.DeadLetter(tr.Context(), ann, d.ID)))
		if deleted, err := tr.store.DeleteDeadLetters(tr.Context(), ann, []posthaste.DeadLetterID{d.ID}, nil); err != nil || len(deleted) > 0 {
			tr.Errorf("DeleteDeadLetters of another user = %v, %v", deleted, err)
		}
		if retried := tr.retry([]posthaste.DeadLetterID{d.ID}, nil); len(retried) > 0 {
			tr.Errorf("RetryDeadLetters of another user = %v", retried)
		}
		tr.wantDeadLetters()
	}},
	{"deleted dead letters are gone", func(tr *trial) {
		first, second := tr.fail(tr.accept(), refused), tr.fail(tr.accept(), refused)
		ids := []posthaste.DeadLetterID{first.ID, 7, first.ID}
		for _, want := range [][]posthaste.DeadLetterID{{first.ID}, nil} {
			deleted := must(tr.store.DeleteDeadLetters(tr.Context(), ann, ids, nil))(tr)
			tr.same("deleted", want, deleted)
		}
		tr.wantDeadLetters(second)
		tr.wantErr(store.ErrNotFound, errorOf(tr.store.DeadLetter(tr.Context(), ann, first.ID)))
		tr.wantLog(first.Message, "CREATED ACTIVE ERROR FAILED")
	}},
	{"retried dead letters become messages", func(tr *trial) {
		failed, other := tr.fail(tr.accept(), refused), tr.fail(tr.accept(), refused)
		fresh := tr.message()
		retried := tr.retry([]posthaste.DeadLetterID{failed.ID, 7, failed.ID}, func(d *posthaste.DeadLetter) (*posthaste.Message, error) {
			tr.same("dead letter to be retried", failed, d)
			return fresh, nil
		})
		tr.same("retried", []store.Retried{{ID: failed.ID, Message: fresh}}, retried)
		tr.wantDeadLetters(other)
		tr.claimOne(fresh)
		tr.wantLog(fresh, "CREATED ACTIVE")
		tr.wantLog(failed.Message, "CREATED ACTIVE ERROR FAILED")
	}},
	{"a dead letter that cannot be retried stays", func(tr *trial) {
		bad, good := tr.fail(tr.accept(), refused), tr.fail(tr.accept(), refused)
		broken, fresh := errors.New("no such destination"), tr.message()
		retried := tr.retry([]posthaste.DeadLetterID{bad.ID, good.ID}, func(d *posthaste.DeadLetter) (*posthaste.Message, error) {
			if d.ID == bad.ID {
				return nil, broken
			}
			return fresh, nil
		})
		if len(retried) != 2 || !errors.Is(retried[0].Err, broken) || retried[1].Message != fresh {
			tr.Errorf("retried %v, want an error and then a message", retried)
		}
		tr.wantDeadLetters(bad)
	}},
	{"a dead letter that is named twice has one result, also if it cannot be retried", func(tr *trial) {
		tr.putAction("a", ann)
		bad, good := tr.fail(tr.accept(), refused), tr.fail(tr.accept(), refused)
		broken, fresh := errors.New("no such destination"), tr.message(delayed(never))
		step := &store.Step{ActionID: "a", Advance: func(a *posthaste.BulkAction, processed int, failures []posthaste.ActionFailure) {
			a.Count(processed, failures)
		}}
		remake := func(d *posthaste.DeadLetter) (*posthaste.Message, error) {
			if d.ID == bad.ID {
				return nil, broken
			}
			return fresh, nil
		}
		ids := []posthaste.DeadLetterID{bad.ID, bad.ID, good.ID, bad.ID, good.ID}
		retried, err := tr.store.RetryDeadLetters(tr.Context(), tr.now, ann, ids, remake, fixedStep(step))
		if err != nil || len(retried) != 2 || !errors.Is(retried[0].Err, broken) || retried[1].Message != fresh {
			tr.Errorf("RetryDeadLetters = %v, %v, want one error and one message", retried, err)
		}
		tr.wantCounts("a", 1, posthaste.ActionFailure{ID: bad.ID.String(), Error: broken.Error()})
		tr.wantDeadLetters(bad)
	}},
}

var deadLetterQueryPromises = queryPromises(lettersOfFailures, noLetterHas)

// largeDeadLetterPromises are about what takes more memory than one call may have.
var largeDeadLetterPromises = []promise{
	{"large dead letters are retried in batches", func(tr *trial) {
		made := map[posthaste.DeadLetterID]*posthaste.Message{}
		tr.inBatches(6, func(ids []posthaste.DeadLetterID, step store.Progress) []posthaste.DeadLetterID {
			size, last := 0, 0
			retried, err := tr.store.RetryDeadLetters(tr.Context(), tr.now, ann, ids, func(d *posthaste.DeadLetter) (*posthaste.Message, error) {
				if d.ID == ids[0] {
					size = 0 // it begins, or begins again
				}
				last = store.DeadLetterSize(d)
				size += last
				if made[d.ID] == nil {
					made[d.ID] = tr.message()
				}
				return made[d.ID], nil
			}, step)
			if err != nil || size-last >= store.BatchBytes {
				tr.Errorf("%d dead letters of %d bytes are retried at once, %v", len(retried), size, err)
			}
			return store.RetriedIDs(retried)
		})
	}},
	{"large dead letters are deleted in batches", func(tr *trial) {
		tr.inBatches(6, func(ids []posthaste.DeadLetterID, step store.Progress) []posthaste.DeadLetterID {
			deleted, err := tr.store.DeleteDeadLetters(tr.Context(), ann, ids, step)
			if err != nil {
				tr.Error(err)
			}
			return deleted
		})
	}},
}

// fail accepts nothing; it lets a message that is due fail and returns its dead
// letter.
func (tr *trial) fail(m *posthaste.Message, outcome posthaste.Outcome) *posthaste.DeadLetter {
	tr.Helper()
	tr.settle(store.Failed(tr.claimOne(m), outcome))
	all := tr.deadLetters(m.User, store.DeadLetterQuery{High: posthaste.MaxPosition, Limit: plenty})
	at := slices.IndexFunc(all, func(d *posthaste.DeadLetter) bool { return d.Message.ID == m.ID })
	if at < 0 || !posthaste.Position(all[0].ID).Time().Equal(posthaste.Position(all[at].ID).Time()) { // of one moment in any order
		tr.Fatalf("the latest dead letter is not that of %s", m.ID)
	}
	return all[at]
}

// inBatches makes large dead letters and does something with them until none is left. Each
// call does it with the first of them at least, and tells the step of a bulk action what it
// leaves.
func (tr *trial) inBatches(n int, do func([]posthaste.DeadLetterID, store.Progress) []posthaste.DeadLetterID) {
	tr.Helper()
	tr.putAction("a", ann)
	var ids []posthaste.DeadLetterID
	for range n {
		ids = append(ids, tr.fail(tr.accept(func(m *posthaste.Message) { m.Body = make([]byte, largePart) }), refused).ID)
	}
	for len(ids) > 0 {
		var left []posthaste.DeadLetterID
		done := do(ids, func(ids []posthaste.DeadLetterID) *store.Step {
			left = ids
			return &store.Step{ActionID: "a", Advance: func(a *posthaste.BulkAction, processed int, _ []posthaste.ActionFailure) { a.Count(processed, nil) }}
		})
		if len(done) == 0 || !slices.Equal(slices.Concat(done, left), ids) || !slices.Equal(store.IDsAfter(ids, done), left) {
			tr.Fatalf("of %v, %v are done and %v are left", ids, done, left)
		}
		ids = left
	}
	tr.wantCounts("a", n)
	tr.wantDeadLetters()
}

func (tr *trial) retry(ids []posthaste.DeadLetterID,
	remake func(*posthaste.DeadLetter) (*posthaste.Message, error),
) []store.Retried {
	tr.Helper()
	retried := must(tr.store.RetryDeadLetters(tr.Context(), tr.now, ann, ids, remake, nil))(tr)
	return retried
}

// deadLetters follows a query to its last page.
func (tr *trial) deadLetters(user string, query store.DeadLetterQuery) []*posthaste.DeadLetter {
	tr.Helper()
	var all []*posthaste.DeadLetter
	for range 10_000 {
		page := must(tr.store.DeadLetters(tr.Context(), user, query))(tr)
		if len(page.DeadLetters) > query.Limit {
			tr.Fatalf("a page of %d dead letters, at most %d were asked for", len(page.DeadLetters), query.Limit)
		}
		if err := checkBytes(page.DeadLetters, store.PageBytes, func(d **posthaste.DeadLetter) int { return store.DeadLetterSize(*d) }); err != nil {
			tr.Error(err)
		}
		all = append(all, page.DeadLetters...)
		if !page.More {
			return all
		}
		if query.OldestFirst {
			query.Low = page.Next
		} else {
			query.High = page.Next
		}
	}
	tr.Fatal("DeadLetters never comes to an end")
	return nil
}

// wantBarePages follows a query to its last page, and requires one that is bare to have
// the ids of the same pages, and nothing else.
func (tr *trial) wantBarePages(query store.DeadLetterQuery) {
	tr.Helper()
	for more := true; more; {
		whole := must(tr.store.DeadLetters(tr.Context(), ann, query))(tr)
		bareQuery := query
		bareQuery.Bare = true
		bare := must(tr.store.DeadLetters(tr.Context(), ann, bareQuery))(tr)
		ids := idsOfLetters(whole.DeadLetters)
		if len(whole.IDs) > 0 || len(bare.DeadLetters) > 0 || !slices.Equal(bare.IDs, ids) || bare.More != whole.More || bare.Next != whole.Next {
			tr.Fatalf("a bare page for %+v has %d dead letters, ids %v, more %v from %d, want ids %v, more %v from %d",
				query, len(bare.DeadLetters), bare.IDs, bare.More, bare.Next, ids, whole.More, whole.Next)
		}
		if more = whole.More; query.OldestFirst {
			query.Low = whole.Next
		} else {
			query.High = whole.Next
		}
	}
}

// wantDeadLetters requires these to be all of ann.
func (tr *trial) wantDeadLetters(want ...*posthaste.DeadLetter) {
	tr.Helper()
	got := tr.deadLetters(ann, store.DeadLetterQuery{High: posthaste.MaxPosition, OldestFirst: true, Limit: plenty})
	if !slices.Equal(idsOfLetters(got), idsOfLetters(want)) {
		tr.Errorf("dead letters %v, want %v", idsOfLetters(got), idsOfLetters(want))
	}
}

func idsOfLetters(letters []*posthaste.DeadLetter) []posthaste.DeadLetterID {
	ids := make([]posthaste.DeadLetterID, len(letters))
	for i, d := range letters {
		ids[i] = d.ID
	}
	return ids
}

// lettersOfFailures are dead letters that differ in all that can be filtered.
func lettersOfFailures(tr *trial) *archive[*posthaste.DeadLetter] {
	rng := rand.New(rand.NewPCG(5, 6))
	return &archive[*posthaste.DeadLetter]{
		trial: tr, fields: letterFields, things: tr.makeDeadLetters(rng, 60), rng: rng,
		at:      func(d *posthaste.DeadLetter) posthaste.Position { return posthaste.Position(d.ID) },
		matches: (*posthaste.Filter).MatchesDeadLetter,
		text:    func(d *posthaste.DeadLetter) string { return fmt.Sprintf("%s %s", d.ID, d.Message.ID) },
		read: func(q question) []*posthaste.DeadLetter {
			query := store.DeadLetterQuery{Filter: q.filter, Low: q.low, High: q.high, OldestFirst: q.oldestFirst, Limit: q.limit}
			tr.wantBarePages(query)
			return tr.deadLetters(ann, query)
		},
	}
}

// makeDeadLetters lets n messages of ann fail, which differ in all that can be
// filtered, and deletes some dead letters. It returns the others, oldest first.
func (tr *trial) makeDeadLetters(rng *rand.Rand, n int) []*posthaste.DeadLetter {
	tr.Helper()
	for range n {
		outcome := posthaste.Outcome{Error: "no"}
		if status := rng.IntN(3); status > 0 {
			outcome.Response = &posthaste.Response{Status: 500 + status}
		}
		tr.fail(tr.accept(variety(rng)), outcome)
		tr.fail(tr.accept(variety(rng), ownedBy(anna)), outcome)
		tr.wait(time.Duration(rng.IntN(10)) * time.Hour)
	}
	query := store.DeadLetterQuery{High: posthaste.MaxPosition, OldestFirst: true, Limit: plenty}
	all := tr.deadLetters(ann, query)
	if len(all) != n {
		tr.Fatalf("%d dead letters of %d failures", len(all), n)
	}
	var gone []posthaste.DeadLetterID
	for i := 0; i < n; i += 7 {
		gone = append(gone, all[i].ID)
	}
	tr.ok(errorOf(tr.store.DeleteDeadLetters(tr.Context(), ann, gone, nil)))
	return slices.DeleteFunc(all, func(d *posthaste.DeadLetter) bool { return slices.Contains(gone, d.ID) })
}
