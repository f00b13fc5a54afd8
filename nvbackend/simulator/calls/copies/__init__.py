"""Instructions that copy later: cp.async, bulk copies, TMA, asynchronous stores, and tensor maps in memory."""
