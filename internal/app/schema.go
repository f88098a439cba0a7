package app

import (
	"context"
	"fmt"

	"posthaste/internal/store/postgres"
)

// Schema is where the schema of a database stands, and which programs go with it.
type Schema = postgres.Schema

// ReadSchema returns where the schema of a database stands. It changes nothing.
func ReadSchema(ctx context.Context, url string) (Schema, error) {
	at, err := postgres.ReadSchema(ctx, url)
	if err != nil {
		return at, fmt.Errorf("read the schema: %w", err)
	}
	return at, nil
}
