package storetest_test

import (
	"testing"

	"posthaste/internal/store"
	"posthaste/internal/store/storetest"
	"posthaste/internal/store/storetest/model"
)

// crashableModel keeps what a crash leaves of a model.
type crashableModel struct{ *model.Model }

func (c *crashableModel) Open() (store.Store, error) { return c.Model, nil }

func (c *crashableModel) Crash(int64) { c.Model = c.Model.Crash() }

func TestModelCrashes(t *testing.T) {
	storetest.RunCrash(t, 10, func(*testing.T) storetest.Crashable { return &crashableModel{model.New()} })
}
