package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// trimStep is how many things of a kind one commit removes.
const trimStep = 200

// Trim implements store.Store.
func (l *Ledger) Trim(ctx context.Context, user string, horizon store.Horizon) (trimmed store.Trimmed, err error) {
	if !horizon.DeadLetters.IsZero() {
		if trimmed.DeadLetters, err = l.trimDeadLetters(ctx, user, horizon.DeadLetters); err != nil {
			return trimmed, fmt.Errorf("trim DLQ: %w", err)
		}
		failed, err := l.trimFailedRuns(ctx, user, horizon.DeadLetters)
		if trimmed.DeadLetters += failed; err != nil {
			return trimmed, fmt.Errorf("trim DLQ of runs: %w", err)
		}
	}
	if !horizon.Runs.IsZero() {
		if trimmed.Runs, err = l.trimRuns(ctx, user, horizon.Runs); err != nil {
			return trimmed, fmt.Errorf("trim runs: %w", err)
		}
	}
	if !horizon.Expired.IsZero() {
		if err := l.trimExpired(ctx, user, horizon.Expired); err != nil {
			return trimmed, err
		}
	}
	if !horizon.Log.IsZero() {
		if trimmed.Days, err = l.DropDays(ctx, user, horizon.Log); err != nil {
			return trimmed, fmt.Errorf("trim log: %w", err)
		}
	}
	if !horizon.FlowKeys.IsZero() {
		if trimmed.FlowKeys, err = l.trimFlowKeys(ctx, user, horizon.FlowKeys); err != nil {
			return trimmed, fmt.Errorf("trim flow-control keys: %w", err)
		}
	}
	return trimmed, nil
}

func (l *Ledger) trimDeadLetters(ctx context.Context, user string, before time.Time) (removed int, err error) {
	query := store.DeadLetterQuery{High: posthaste.FirstPosition(before) - 1, OldestFirst: true, Limit: trimStep, Bare: true}
	for more := true; more; {
		page, err := l.DeadLetters(ctx, user, query)
		if err != nil {
			return removed, err
		}
		for ids := page.IDs; len(ids) > 0; {
			deleted, err := l.DeleteDeadLetters(ctx, user, ids, nil)
			if removed += len(deleted); err != nil {
				return removed, err
			}
			ids = store.IDsAfter(ids, deleted)
		}
		more, query.Low = page.More, page.Next
	}
	return removed, nil
}

// trimFailedRuns removes entries of the DLQ of runs.
func (l *Ledger) trimFailedRuns(ctx context.Context, user string, before time.Time) (removed int, err error) {
	query := store.RunQuery{Failed: true, High: posthaste.FirstPosition(before) - 1, OldestFirst: true, Limit: trimStep, Bare: true}
	for more := true; more; {
		page, err := l.Runs(ctx, user, query)
		if err != nil {
			return removed, err
		}
		step := 0
		err = l.Transact(ctx, time.Time{}, user, func(tx store.RunTx) (err error) {
			step, err = removeFailed(tx, page.Runs)
			return err
		})
		if err != nil {
			return removed, err
		}
		removed += step
		more, query.Low = page.More, page.Next
	}
	return removed, nil
}

func removeFailed(tx store.RunTx, runs []*posthaste.Run) (removed int, err error) {
	for _, r := range runs {
		_, run, err := tx.DLQEntry(r.DeadLetterID)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return removed, err
		}
		tx.RemoveFromDLQ(run)
		removed++
	}
	return removed, nil
}

// trimExpired removes submissions and cached responses that are not valid any more.
func (l *Ledger) trimExpired(ctx context.Context, user string, now time.Time) error {
	return l.update(ctx, now, user, store.Hint{}, func(tx *tx) error {
		submissions.trim(tx)
		responses.trim(tx)
		return nil
	})
}
