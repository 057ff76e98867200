package api

import (
	"ringmq/net/remoting"
	"ringmq/net/server"
)

// unbuiltRoutes are requests whose refusal has a code or a reason of its own. All others that are not built are answered 3 with their
// name. None of them stores anything.
func unbuiltRoutes() map[int32]route {
	return map[int32]route{
		remoting.EndTransaction:      {handle: (*API).endTransaction},
		remoting.ConsumerSendMsgBack: {handle: (*API).sendBack},
	}
}

// endTransaction handles 37.
func (a *API) endTransaction(_ *remoting.Command, r server.Reply) {
	refuse(r, remoting.NoPermission, "transactional messages are not supported by this version of ringmq")
}

// sendBack handles 36. The client then sends the message to its retry topic by itself, which needs delays as well, and keeps it.
func (a *API) sendBack(_ *remoting.Command, r server.Reply) {
	refuse(r, remoting.RequestCodeNotSupported, "request code %d (%s): retries with a delay are not supported by this version of ringmq",
		remoting.ConsumerSendMsgBack, remoting.CodeName(remoting.ConsumerSendMsgBack))
}
