package configfile

// DataVersion numbers the states of a table as RocketMQ does: name servers and slaves take a table anew when its version is
// another one than before.
type DataVersion struct {
	Counter      int64 `json:"counter"`
	StateVersion int64 `json:"stateVersion"`
	Timestamp    int64 `json:"timestamp"` // ms
}

// Next is the version after v. Both numbers rise, whatever the clock does; so a table that takes one Next when it is loaded never
// shows a version again that an earlier run of the broker showed without living to save it, as long as the clock is not set back.
func (v DataVersion) Next(nowMS int64) DataVersion {
	return DataVersion{Counter: v.Counter + 1, StateVersion: v.StateVersion, Timestamp: max(v.Timestamp, nowMS)}
}
