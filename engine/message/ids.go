package message

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"
)

// An offset id names a stored message by where it stands: address of the broker (4 or 16 bytes), port in 4 bytes, position
// in the log in 8, all as upper-case hex: 32 digits, or 56 for IPv6.
const (
	offsetIDLenV4 = 2 * (hostLenV4 + 8)
	offsetIDLenV6 = 2 * (hostLenV6 + 8)
)

// AppendOffsetID appends the offset id of the message at at, stored by the broker host.
func AppendOffsetID(dst []byte, host netip.AddrPort, at Offset) []byte {
	var raw [hostLenV6 + 8]byte
	b := appendHost(raw[:0], host)
	b = binary.BigEndian.AppendUint64(b, uint64(at))
	return appendHex(dst, b)
}

// ParseOffsetID is the way back; it takes digits of either case.
func ParseOffsetID(id string) (netip.AddrPort, Offset, error) {
	if len(id) != offsetIDLenV4 && len(id) != offsetIDLenV6 {
		return netip.AddrPort{}, 0, fmt.Errorf("message: offset id %.64q of %d digits, must be %d or %d", id, len(id), offsetIDLenV4, offsetIDLenV6)
	}
	var raw [hostLenV6 + 8]byte
	n, err := hex.Decode(raw[:], []byte(id))
	if err != nil {
		return netip.AddrPort{}, 0, fmt.Errorf("message: offset id %q: %w", id, err)
	}
	at := Offset(binary.BigEndian.Uint64(raw[n-8:]))
	if port := binary.BigEndian.Uint32(raw[n-12:]); port > 0xffff || at < 0 {
		return netip.AddrPort{}, 0, fmt.Errorf("message: offset id %q: port %d (at most 65535), offset %d (at least 0)", id, port, at)
	}
	return host(raw[:n-8]), at, nil
}

const hexDigits = "0123456789ABCDEF"

func appendHex(dst, b []byte) []byte {
	for _, c := range b {
		dst = append(dst, hexDigits[c>>4], hexDigits[c&15])
	}
	return dst
}

// UniqueIDs makes ids as clients make them (property UNIQ_KEY), for messages that come without one: address 4 bytes (16 for
// IPv6), process id 2, a hash 4, ms since the start of the month 4, counter 2; 32 hex digits, or 56. It is safe for
// concurrent use. At most 65536 ids of one ms differ.
type UniqueIDs struct {
	prefix  [2 * (16 + 2 + 4)]byte // as hex
	length  int                    // of prefix
	now     func() time.Time
	month   atomic.Pointer[month]
	counter atomic.Uint32
}

// month is a calendar month in local time, as the ids' readers assume; it never changes once published.
type month struct{ startMS, endMS int64 }

// NewUniqueIDs returns a maker of ids for the process pid on host. salt keeps apart what shares both. now may be nil for
// the real clock; its location decides when a month starts.
func NewUniqueIDs(host netip.Addr, pid int, salt uint32, now func() time.Time) *UniqueIDs {
	if now == nil {
		now = time.Now
	}
	var raw [16 + 2 + 4]byte
	b := appendHost(raw[:0], netip.AddrPortFrom(host, 0))
	b = b[:len(b)-4] // the address alone
	b = binary.BigEndian.AppendUint16(b, uint16(pid))
	b = binary.BigEndian.AppendUint32(b, salt)
	u := &UniqueIDs{now: now}
	u.length = len(appendHex(u.prefix[:0], b))
	return u
}

// AppendTo appends a new id. It allocates only when a new month begins.
func (u *UniqueIDs) AppendTo(dst []byte) []byte {
	now := u.now()
	nowMS := now.UnixMilli()
	m := u.month.Load()
	if m == nil || nowMS < m.startMS || nowMS >= m.endMS {
		m = monthOf(now)
		u.month.Store(m) // whoever stores last stores a month that was right a moment ago; the next id looks again
	}
	var raw [6]byte
	binary.BigEndian.PutUint32(raw[:], uint32(nowMS-m.startMS))
	binary.BigEndian.PutUint16(raw[4:], uint16(u.counter.Add(1)))
	dst = append(dst, u.prefix[:u.length]...)
	return appendHex(dst, raw[:])
}

func monthOf(t time.Time) *month {
	start := time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, t.Location())
	return &month{startMS: start.UnixMilli(), endMS: start.AddDate(0, 1, 0).UnixMilli()}
}
