package storetest_test

import (
	"testing"

	"posthaste/internal/store"
	"posthaste/internal/store/storetest"
	"posthaste/internal/store/storetest/model"
)

func TestModel(t *testing.T) {
	storetest.RunRules(t, func(*testing.T) store.Store { return model.New() })
}
