package engine_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"ringmq/engine"
	"ringmq/engine/commitlog"
	"ringmq/engine/consumequeue"
	"ringmq/engine/message"
	"ringmq/engine/segment"
	"ringmq/engine/segment/memstore"
)

// rising is a store of 600 records of 300 bytes in three segments, stored 10 ms apart.
func rising(t testing.TB) *handmade {
	h := newHandmade(t, 64<<10, 1000)
	for i := range 600 {
		h.add(int32(i%4), 300, int64(1000+10*i))
	}
	return h
}

func (h *handmade) options(book *logBook) engine.Options {
	o := fiveFilesOptions(h, book)
	o.IndexEntries = 20_000
	return o
}

// withBadSectors makes pages of a segment fault.
func withBadSectors(o *engine.Options, segmentFile string, pages ...[2]int) {
	o.Storage = func(dir string) (segment.Storage, error) {
		d, err := segment.NewDir(dir, segment.DirOptions{})
		return &memstore.BadSectors{Storage: d, Pages: map[string][][2]int{segmentFile: pages}}, err
	}
}

// A bad sector below the line between torn tail and damage is told and passed over by everything that comes by: the start, pulls, requests
// by position, key and time, the next start.
func TestBadSectorBelowTheMark(t *testing.T) {
	t.Parallel()
	h := rising(t)
	h.write(true)
	var book logBook
	o := h.options(&book)
	page := [2]int{8192, 12288}
	withBadSectors(&o, segment.Name(0), page)
	s := open(t, o)
	lost := func(r madeRecord) bool { return r.at < page[1] && r.at+r.size > page[0] }
	checkDamaged(t, s, h, lost)
	if n := len(s.Recovery().Damaged); n != 1 || !book.has("level=ERROR", "damaged", "cannot read byte 8192") {
		t.Errorf("%d places damaged:\n%s", n, book.String())
	}
	closeStore(t, s)
	s = open(t, o)
	if r := s.Recovery(); r.Records != 0 || !r.Clean {
		t.Errorf("second opening: %+v", r)
	}
	checkDamaged(t, s, h, lost)
}

// checkDamaged asks in every way for every record, with those that are lost among them.
func checkDamaged(t *testing.T, s *engine.Store, h *handmade, lost func(madeRecord) bool) {
	t.Helper()
	waitForKeys(t, s)
	for queue := range int32(4) {
		var want []string
		for _, r := range h.records {
			if r.id.QueueID == queue && !lost(r) {
				want = append(want, r.body)
			}
		}
		got := bodies(records(t, s, testTopic, queue))
		if len(got) < len(want) || !slices.Equal(got[:len(want)], want) {
			t.Errorf("queue %d serves %d messages, want %d", queue, len(got), len(want))
		}
	}
	for i, r := range h.records {
		view, ok := s.Record(message.Offset(r.at))
		view.Release()
		if ok == lost(r) {
			t.Errorf("record %d at %d is viewed: %v", i, r.at, ok)
		}
		if _, ok := s.StoreTime([]byte(testTopic), r.id.QueueID, message.QueueOffset(r.number)); ok == lost(r) {
			t.Errorf("record %d has a store time: %v", i, ok)
		}
		want := []int64{int64(r.at)}
		if lost(r) {
			want = nil
		}
		if got := query(t, s, testTopic, fmt.Sprintf("k%d", i), engine.ByKey); !slices.Equal(got, want) {
			t.Errorf("record %d by key: %v, want %v", i, got, want)
		}
		checkTime(t, s, h, lost, r)
	}
	if s.Latched() != nil {
		t.Error(s.Latched())
	}
}

// checkTime searches for the time of one record: what is found is not behind the first good message stored then or later, and nothing good
// stands between.
func checkTime(t *testing.T, s *engine.Store, h *handmade, lost func(madeRecord) bool, r madeRecord) {
	t.Helper()
	good := message.QueueOffset(math.MaxInt64)
	for _, other := range h.records {
		if other.id == r.id && other.timeMS >= r.timeMS && !lost(other) {
			good = message.QueueOffset(other.number)
			break
		}
	}
	at, ok := s.OffsetByTime([]byte(testTopic), r.id.QueueID, r.timeMS)
	if !ok || at > good {
		t.Errorf("time %d: number %d, %v, want at most %d", r.timeMS, at, ok, good)
	}
	for _, other := range h.records {
		if other.id == r.id && message.QueueOffset(other.number) >= at && other.timeMS < r.timeMS && !lost(other) {
			t.Errorf("time %d: number %d, but number %d of an earlier time stands behind it", r.timeMS, at, other.number)
			return
		}
	}
}

// Every kind of damage in the middle of the log, before the start and while the store is open.
func TestDamageOfEveryKind(t *testing.T) {
	t.Parallel()
	at := func(h *handmade, i, field int) []byte { return h.log[h.records[i].at+field:] }
	put32 := func(b []byte, v int) { binary.BigEndian.PutUint32(b, uint32(v)) }
	page := func(r madeRecord) bool { return r.at < 12288 && r.at+r.size > 8192 }
	one := func(i int) func(h *handmade) func(madeRecord) bool {
		return func(h *handmade) func(madeRecord) bool {
			return func(r madeRecord) bool { return r.at == h.records[i].at }
		}
	}
	second := func(h *handmade) func(madeRecord) bool {
		return func(r madeRecord) bool { return r.at/h.segmentSize == 1 }
	}
	kinds := map[string]struct {
		alter func(h *handmade)
		lost  func(h *handmade) func(madeRecord) bool
	}{
		"size 2^31-1":       {func(h *handmade) { put32(at(h, 50, 0), math.MaxInt32) }, one(50)},
		"size 0":            {func(h *handmade) { put32(at(h, 50, 0), 0) }, one(50)},
		"size -1":           {func(h *handmade) { put32(at(h, 50, 0), -1) }, one(50)},
		"size 1 more":       {func(h *handmade) { put32(at(h, 50, 0), 301) }, one(50)},
		"body 2^31-1":       {func(h *handmade) { put32(at(h, 50, 84), math.MaxInt32) }, one(50)},
		"body -1":           {func(h *handmade) { put32(at(h, 50, 84), -1) }, one(50)},
		"own offset":        {func(h *handmade) { at(h, 50, 28)[0] = 0x7f }, one(50)},
		"magic":             {func(h *handmade) { at(h, 50, 4)[1] = 0 }, one(50)},
		"the first of all":  {func(h *handmade) { at(h, 0, 4)[0] = 0 }, one(0)},
		"zeros":             {func(h *handmade) { clear(h.log[8192:12288]) }, func(*handmade) func(madeRecord) bool { return page }},
		"ones":              {func(h *handmade) { copy(h.log[8192:], slices.Repeat([]byte{0xff}, 4096)) }, func(*handmade) func(madeRecord) bool { return page }},
		"a segment zeroed":  {func(h *handmade) { clear(h.log[h.segmentSize : 2*h.segmentSize]) }, second},
		"a segment missing": {func(*handmade) {}, second},
	}
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := rising(t)
			kind.alter(h)
			h.write(true)
			if strings.HasSuffix(name, "missing") {
				remove(t, h.segmentFile(1))
			}
			var book logBook
			s := open(t, h.options(&book))
			checkDamaged(t, s, h, kind.lost(h))
			if len(s.Recovery().Damaged) != 1 || !book.has("level=ERROR", "damaged") {
				t.Errorf("damaged %+v:\n%s", s.Recovery().Damaged, book.String())
			}
			kill(t, s, h.dir)
			s = open(t, h.options(&book))
			checkDamaged(t, s, h, kind.lost(h))
		})
	}
}

// At or above the mark nobody knows what was promised behind a bad sector: nothing is cut, and the start says what to do.
func TestBadSectorAboveTheMark(t *testing.T) {
	t.Parallel()
	h := newHandmade(t, 64<<10, 1000)
	for i := range 100 {
		h.add(int32(i%4), 300, int64(1000+i))
	}
	h.write(true)
	before, err := os.ReadFile(h.segmentFile(0))
	if err != nil {
		t.Fatal(err)
	}
	var book logBook
	o := h.options(&book)
	withBadSectors(&o, segment.Name(0), [2]int{8192, 12288})
	_, err = engine.Open(o)
	if err == nil || !strings.Contains(err.Error(), "cannot read segment "+segment.Name(0)+" at byte 8192") || !strings.Contains(err.Error(), "nothing was cut") {
		t.Fatalf("open: %v", err)
	}
	if after, err := os.ReadFile(h.segmentFile(0)); err != nil || !slices.Equal(before, after) {
		t.Error("the segment was changed")
	}
	o.Storage = nil // another attempt can read it
	checkAll(t, open(t, o), h)
}

// A log that is damaged at more places than anybody wants to read is told in few lines.
func TestDamageAtManyPlaces(t *testing.T) {
	t.Parallel()
	h := newHandmade(t, 256<<10, 1000)
	for i := range 1000 {
		h.add(0, 300, int64(1000+i))
	}
	for i := range 400 {
		h.log[h.records[2*i].at+100] ^= 1
	}
	h.write(true)
	var book logBook
	s := open(t, h.options(&book))
	if r := s.Recovery(); r.DamagedCount != 400 || len(r.Damaged) != 400 {
		t.Errorf("%d places, %d kept", r.DamagedCount, len(r.Damaged))
	}
	if n := strings.Count(book.String(), "level=ERROR"); n > 110 || !book.has("many places", "places=400") {
		t.Errorf("%d lines", n)
	}
	if got := len(records(t, s, testTopic, 0)); got != 600 {
		t.Errorf("serves %d messages, want 600", got)
	}
}

// Entries that point anywhere, with any size, cost no memory, no panic, and no message but their own. Not in parallel: what others allocate counts.
func TestHostileEntries(t *testing.T) {
	h := rising(t)
	h.write(false)
	var book logBook
	o := h.options(&book)
	closeStore(t, open(t, o)) // from here on entries below the mark are not walked by
	var hostile []message.QueueOffset
	next := 10
	want := h.want(0, 600)
	const at, size = 300 * 4 * 50, 300
	for _, place := range []int{0, 1, at - 100, at + 1, 1 << 31, 1 << 40, 1 << 62, math.MaxInt64 - size} {
		for _, length := range []int{1, 4, 90, size - 1, size, size + 1, 64 << 10, math.MaxInt32 - 1, math.MaxInt32} {
			if place+length < 0 || place == 0 && (length == math.MaxInt32 || length == size) {
				continue // no entry, a filler, another message
			}
			patch(t, h.queueFile(0, 0), next*20, unit(place, length, 0))
			hostile = append(hostile, message.QueueOffset(next))
			want[next] = ""
			next++
		}
	}
	want = slices.DeleteFunc(want, func(body string) bool { return body == "" })
	s := open(t, o)
	if r := s.Recovery(); r.Records != 0 || r.Dropped != 0 || s.Queue([]byte(testTopic), 0).Max() != 150 {
		t.Errorf("recovery %+v, max %d", r, s.Queue([]byte(testTopic), 0).Max())
	}
	grown := allocated(func() {
		if got := bodies(records(t, s, testTopic, 0)); !slices.Equal(got, want) {
			t.Errorf("serves %d messages, want %d", len(got), len(want))
		}
		for ms := int64(0); ms < 9000; ms += 7 {
			s.OffsetByTime([]byte(testTopic), 0, ms)
		}
		for _, number := range hostile {
			if ms, ok := s.StoreTime([]byte(testTopic), 0, number); ok {
				t.Errorf("number %d was stored at %d", number, ms)
			}
		}
	})
	if grown > 16<<20 || len(hostile) < 60 {
		t.Errorf("%d hostile entries: %d bytes of memory", len(hostile), grown)
	}
}

// allocated is how many bytes fn allocates, or others meanwhile.
func allocated(fn func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	fn()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// Without an entry from before, the later of two records has the number, as the broker had it that wrote them.
func TestTwoRecordsOfOneNumberWithoutAnEntry(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		entry []byte // of number 9
		later bool   // the later record gets it
	}{
		{"no queue", nil, true},
		{"an entry of neither", unit(1, 300, 0), true},
		{"an entry of another number", nil, true},
		{"the entry of the later", nil, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := newHandmade(t, 64<<10, 100)
			for i := range 10 {
				h.add(0, 300, int64(1000+i))
			}
			id := consumequeue.ID{Topic: testTopic}
			h.queues[id] = slices.Clone(h.queues[id][:9*20])
			h.add(0, 320, 2000) // number 9 once more
			switch c.name {
			case "no queue":
				delete(h.queues, id)
			case "an entry of neither":
				copy(h.queues[id][9*20:], c.entry)
			case "an entry of another number":
				copy(h.queues[id][9*20:], h.queues[id][3*20:4*20])
			}
			h.write(true)
			var book logBook
			o := h.options(&book)
			s := open(t, o)
			want := append(h.want(0, 9), h.records[10].body)
			if got := bodies(records(t, s, testTopic, 0)); !slices.Equal(got, want) {
				t.Errorf("served %q", got)
			}
			if s.Recovery().Twice == 0 || !book.has("two records claim one number", "number=9") {
				t.Errorf("it was not told:\n%s", book.String())
			}
			audit(t, s)
		})
	}
}

// What a start has found is known to the next ones, until somebody brings the segment back: then its messages are there again.
func TestDamageIsRemembered(t *testing.T) {
	t.Parallel()
	for name, alter := range map[string]func(t *testing.T, h *handmade, segment []byte){
		"a body": func(t *testing.T, h *handmade, _ []byte) { patch(t, h.segmentFile(1), 1000, []byte{0xff, 0xff}) },
		"a segment missing, queues lost": func(t *testing.T, h *handmade, _ []byte) {
			remove(t, h.segmentFile(1))
			remove(t, h.dir+"/consumequeue")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := rising(t)
			h.write(true)
			whole, err := os.ReadFile(h.segmentFile(1))
			if err != nil {
				t.Fatal(err)
			}
			alter(t, h, whole)
			var book logBook
			o := h.options(&book)
			s := open(t, o)
			damaged := s.Recovery().Damaged
			for range 2 {
				closeStore(t, s)
				book = logBook{}
				s = open(t, o)
				if got := s.Recovery(); !slices.Equal(got.Damaged, damaged) || got.Records != 0 || !book.has("level=ERROR", "earlier starts have found it", "places=1") {
					t.Fatalf("recovery %+v, want what was found:\n%s", got, book.String())
				}
			}
			closeStore(t, s)
			writeFile(t, h.segmentFile(1), whole)
			book = logBook{}
			s = open(t, o)
			if got := s.Recovery(); len(got.Damaged) != 0 || !book.has("damage of the commit log is gone") || exists(t, h.dir+"/ringmq/damaged") {
				t.Errorf("recovery %+v:\n%s", got, book.String())
			}
			checkDamaged(t, s, h, func(madeRecord) bool { return false })
			audit(t, s)
		})
	}
}

func TestDamageFile(t *testing.T) {
	t.Parallel()
	list := []commitlog.Damage{{From: 0, To: 5, Reason: "message: record at 0: size 7, must be 8"}, {From: 5, To: math.MaxInt64, Reason: ""}}
	text := "ringmq damaged 1\n0 5 message: record at 0: size 7, must be 8\n5 9223372036854775807 \n"
	if got := string(engine.AppendDamage(nil, list)); got != text {
		t.Errorf("%q, want %q", got, text)
	}
	if got, err := engine.ReadDamage(strings.NewReader(text)); err != nil || !slices.Equal(got, list) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range []string{"", "ringmq damaged 2\n", "ringmq damaged 1\n5 5 x\n", "ringmq damaged 1\n0 9 x\n5 10 y\n", "ringmq damaged 1\n-1 9 x\n",
		"ringmq damaged 1\n0\n", "ringmq damaged 1\n1 9223372036854775808 x\n", "ringmq damaged 1\n\n"} {
		if got, err := engine.ReadDamage(strings.NewReader(bad)); err == nil {
			t.Errorf("%q is taken: %+v", bad, got)
		}
	}
}

func FuzzDamage(f *testing.F) {
	f.Add("ringmq damaged 1\n0 5 reason\n7 9 \n")
	f.Fuzz(func(t *testing.T, text string) {
		list, err := engine.ReadDamage(strings.NewReader(text))
		if err != nil {
			return
		}
		again, err := engine.ReadDamage(strings.NewReader(string(engine.AppendDamage(nil, list))))
		if err != nil || !slices.Equal(again, list) {
			t.Fatalf("%q: %+v, again %+v, %v", text, list, again, err)
		}
	})
}

// A queue file that cannot be read while the store is open ends a pull with a status of its own: nothing is passed over that the log has.
func TestUnreadableQueueFile(t *testing.T) {
	t.Parallel()
	h := fiveFiles(t)
	h.write(true)
	var book logBook
	o := fiveFilesOptions(h, &book)
	closeStore(t, open(t, o))
	s := open(t, o)
	remove(t, h.queueFile(0, 0))
	var res engine.GetResult
	get := func(from message.QueueOffset, want engine.GetStatus, next message.QueueOffset) {
		t.Helper()
		s.Get([]byte(testTopic), 0, from, 32, 1<<20, nil, &res)
		defer res.Release()
		if res.Status != want || res.Next != next {
			t.Errorf("from %d: status %d, next %d, want %d, %d", from, res.Status, res.Next, want, next)
		}
	}
	get(0, engine.Unreadable, 0)
	get(199, engine.Unreadable, 199)
	get(200, engine.Found, 232)
	if !book.has("level=ERROR", "a consume queue cannot be read", "entry=0") {
		t.Errorf("it was not told:\n%s", book.String())
	}
}

// A queue that has lost its end has the walk begin within damage that is known. What is known stays known, also to the start after that.
func TestWalkFromWithinDamage(t *testing.T) {
	t.Parallel()
	h := rising(t)
	lost := func(r madeRecord) bool { return r.at >= h.records[300].at && r.at <= h.records[303].at }
	for _, r := range h.records[300:304] {
		h.log[r.at+100] ^= 1 // of the body: nobody who looks at the head sees it
	}
	h.write(true)
	var book logBook
	o := h.options(&book)
	s := open(t, o)
	checkDamaged(t, s, h, lost)
	closeStore(t, s)
	last := h.records[301]
	patch(t, h.queueFile(last.id.QueueID, 0), (last.number+1)*20, make([]byte, (150-last.number-1)*20))
	for range 3 {
		s = open(t, o)
		checkDamaged(t, s, h, lost)
		closeStore(t, s)
	}
	if book.has("what is known of damage cannot be read") {
		t.Errorf("%s", book.String())
	}
}
