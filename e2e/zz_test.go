package e2e
import ("testing";"time";"sort";"fmt")
func TestZZ(t *testing.T) {
	random := newRandom(t)
	_, c := startServe(t, t.TempDir(), "--log-level", "warn", "--trusted-proxies", "127.0.0.1/32", "--users", "other:secret")
	corpus := fillLog(t, c, random)
	log := corpus.settle(t)
	filters := allFilters(corpus, log, random)
	qs := questionsOfTwo(filters)
	type r struct{d time.Duration; q question; n int}
	var rs []r
	start := time.Now()
	for i := 0; i < len(qs); i += 23 {
		s := time.Now()
		got,_,_ := qs[i].ask(t.Context(), c)
		rs = append(rs, r{time.Since(s), qs[i], len(got)})
	}
	fmt.Println(len(qs), len(rs), time.Since(start))
	sort.Slice(rs, func(i,j int) bool {return rs[i].d>rs[j].d})
	for _, x := range rs[:15] { fmt.Println(x.d, x.n, x.q) }
}
