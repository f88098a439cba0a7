package ledger

import (
	"context"
	"fmt"

	"posthaste/internal/store"
)

// Trim implements store.Retention.
func (l *Ledger) Trim(ctx context.Context, user string, horizon store.Horizon) (trimmed store.Trimmed, err error) {
	if trimmed, err = l.Backend.Trim(ctx, user, horizon); err != nil || horizon.FlowKeys.IsZero() {
		return trimmed, err
	}
	if trimmed.FlowKeys, err = l.trimFlowKeys(ctx, user, horizon.FlowKeys); err != nil {
		return trimmed, fmt.Errorf("trim flow-control keys: %w", err)
	}
	return trimmed, nil
}
