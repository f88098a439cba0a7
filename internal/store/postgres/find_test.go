package postgres

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"posthaste/internal/store"
)

// A page reads one thing more than it shows, if all that was found belongs to it.
func TestFindingsOfAPage(t *testing.T) {
	const looked = 5
	for name, c := range map[string]struct {
		passing []int64
		want    findings
	}{
		"more than a page": {[]int64{1, 2, 3, 4}, findings{at: []int64{1, 2, 3}, more: true, next: 4}},
		"less than a page": {[]int64{1}, findings{at: []int64{1}, more: true, next: 6}},
	} {
		t.Run(name, func(t *testing.T) {
			f := &finder{FindQuery: store.FindQuery{Limit: 2, OldestFirst: true}}
			got := f.findings(c.passing, []int64{1, 2, 3, 4, looked}, looked)
			if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(findings{})); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}
